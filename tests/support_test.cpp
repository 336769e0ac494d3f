// SPDX-License-Identifier: MIT
// The tests' own tools: a comparison that cannot fail proves nothing.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "support/guarded.hpp"
#include "support/random.hpp"

using namespace test;

namespace {

template <class X>
std::string text(const X& x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

}  // namespace

TEST_CASE("every single corrupted element is found") {
  const dynamic_tensor<float> original = random_tensor<float>(3, 5, 1);
  const matrix expected = to_matrix(original);
  REQUIRE(near(original, expected, 0.0));
  REQUIRE(same_bits(original, original));
  for (std::size_t i = 0; i < original.size(); ++i)
    for (const float factor :
         {1.01f, -1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      dynamic_tensor<float> wrong = original;
      wrong.data()[i] *= factor;
      CHECK_FALSE(near(wrong, expected, 1e-3));
      CHECK_FALSE(near(wrong, expected, generate(3, 5, [](std::size_t, std::size_t) { return 1e-6; })));
      CHECK_FALSE(near_in_norm(wrong, expected, 1e-6));
      CHECK_FALSE(equal(wrong, original));
      CHECK_FALSE(same_bits(wrong, original));
    }
}

TEST_CASE("a comparison names the worst element and refuses other shapes") {
  const matrix ones = generate(2, 3, [](std::size_t, std::size_t) { return 1; });
  matrix wrong = ones;
  wrong(0, 1) = 1.5, wrong(1, 2) = 7, wrong(1, 1) = 0.5;
  CHECK(text(near_in_norm(wrong, ones, 0.25)) ==
        "3 of 2 x 3 elements differ; (1, 2) is 7 instead of 1, 24 times what is allowed");
  CHECK_FALSE(equal(dynamic_tensor<double>(2, 3), dynamic_tensor<double>(3, 2)));
  CHECK_FALSE(equal(dynamic_tensor<double>(0, 3), dynamic_tensor<double>(0, 2)));
}

TEST_CASE("NaN equals NaN, 0 equals -0 but not to the bit") {
  dynamic_tensor<float> a(1, 2), b(1, 2);
  a(0, 0) = b(0, 0) = std::nanf("");
  a(0, 1) = 0.0f, b(0, 1) = -0.0f;
  CHECK(equal(a, b));
  CHECK(near(a, to_matrix(b), 0.0));
  CHECK_FALSE(same_bits(a, b));
}

TEST_CASE("a tally fails if a case failed or none was looked at") {
  tally cases;
  CHECK_FALSE(cases);
  cases(true, "good");
  CHECK(cases);
  cases(false, "bad", 1);
  cases(false, "bad", 2);
  cases(true, "good");
  CHECK_FALSE(cases);
  CHECK(text(cases) == "2 of 4 cases differ; the first: bad 1 : differ");
}

TEST_CASE("a write anywhere around a guarded matrix is found") {
#if !SWIGLU_TEST_ADDRESS_SANITIZER  // it would end the program
  for (const std::ptrdiff_t outside : {-64, -1, 3, 4, 8, 9, 13, 70}) {
    guarded<float> g(3, 3, 5, 1);
    fill(g.view(), 1);
    REQUIRE(g.intact());
    g.data()[outside] = 0;
    CHECK_FALSE(g.intact());
  }
#endif
  guarded<float> g(3, 3, 5, 1);
  CHECK(reinterpret_cast<std::uintptr_t>(g.data()) % 64 == 4);
  guarded_panels<float, true> p(2, 3);
  CHECK(p.padded());
  CHECK(p.intact());
  *p.second().at(1, 3) = 1;
  CHECK_FALSE(p.padded());
  CHECK(p.intact());
}

TEST_CASE("the oracle: a product by hand, and its bound holds for float") {
  matrix a(2, 2), b(2, 1);
  a(0, 0) = 1, a(0, 1) = 2, a(1, 0) = 3, a(1, 1) = 4, b(0, 0) = 5, b(1, 0) = 6;
  const matrix ab = product(a, b);
  CHECK(ab(0, 0) == 17);
  CHECK(ab(1, 0) == 39);
  CHECK(equal(transpose(ab), product(transpose(b), transpose(a))));

  const dynamic_tensor<float> x = random_tensor<float>(5, 300, 1), y = random_tensor<float>(300, 5, 2);
  dynamic_tensor<float> sum(5, 5);
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t k = 0; k < 300; ++k)
      for (std::size_t c = 0; c < 5; ++c) sum(r, c) += x(r, k) * y(k, c);
  const matrix exact = product(to_matrix(x), to_matrix(y)), bound = product_bound<float>(to_matrix(x), to_matrix(y));
  CHECK(near(sum, exact, bound));
  sum(4, 4) += 1e-2f;
  CHECK_FALSE(near(sum, exact, bound));
}
