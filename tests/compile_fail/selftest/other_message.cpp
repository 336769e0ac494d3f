// SPDX-License-Identifier: MIT
// The harness has to refuse this case: the bad half fails, but for another reason than the one expected.
// expect: no_such_name
// expect: the shapes differ
int main() {
#ifdef SWIGLU_BAD
  return no_such_name;
#endif
}
