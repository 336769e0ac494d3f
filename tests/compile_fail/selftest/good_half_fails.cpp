// SPDX-License-Identifier: MIT
// The harness has to refuse this case: even its good half does not compile, so the bad half proves nothing.
// expect: no_such_name
int main() {
#ifdef SWIGLU_BAD
  return 1;
#endif
  return no_such_name;
}
