// SPDX-License-Identifier: MIT
// The harness has to refuse this case: its bad half is valid, too.
// expect: anything
int main() {
#ifdef SWIGLU_BAD
  return 1;
#endif
}
