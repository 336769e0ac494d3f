// SPDX-License-Identifier: MIT
// A tensor that dies before the assignment that writes it is evaluated; by itself, marked, and of panels.
// expect: a temporary tensor would be destroyed before the assignment that writes it is evaluated
// expect: outlives_the_assignment<swiglu::[a-z0-9_:]*tensor<float, 2, 3>
// expect: outlives_the_assignment<swiglu::[a-z0-9_:]*tensor<double, 2, 3>
// expect: outlives_the_assignment<swiglu::[a-z0-9_:]*tensor<float, 2, 4>
// expect: outlives_the_assignment<swiglu::[a-z0-9_:]*panels<float>
#include <utility>

#include <swiglu/expr/evaluate.hpp>

void f(const swiglu::tensor<float, 2, 3>& x, const swiglu::tensor<double, 2, 3>& y,
       const swiglu::tensor<float, 2, 4>& z, swiglu::panels<float>& p) {
  using namespace swiglu;
#ifdef SWIGLU_BAD
  const auto plain = tensor<float, 2, 3>{} <<= x;
  const auto unread = noalias(tensor<double, 2, 3>{}) <<= y;
  const auto sum = accumulate(tensor<float, 2, 4>{}) <<= z;
  const auto moved = std::move(p) <<= x;
#else
  tensor<float, 2, 3> a;
  tensor<double, 2, 3> b;
  tensor<float, 2, 4> c;
  const auto plain = a <<= x;
  const auto unread = noalias(b) <<= y;
  const auto sum = accumulate(c.view()) <<= z;  // a view may be a temporary
  const auto moved = p.view() <<= x;
#endif
  evaluate(plain), evaluate(unread), evaluate(sum), evaluate(moved);
}
