// SPDX-License-Identifier: MIT

// Names that other people's headers define as macros: <complex.h> (I), <ctype.h> of several systems (_N, _B, ...),
// <sys/sysmacros.h> (major, minor), a GNU dialect (unix, linux), test frameworks (CHECK, REQUIRE, INFO), matrix codes
// (A, B). It has to compile after all of them. Not min and max: who includes <windows.h> defines NOMINMAX.

#include "outside.inc"

#define I !
#define A !
#define B !
#define _A !
#define _B !
#define _C !
#define _L !
#define _N !
#define _P !
#define _S !
#define _U !
#define _X !
#define major !
#define minor !
#define unix !
#define linux !
#define likely(x) !
#define unlikely(x) !
#define IN !
#define OUT !
#define EMPTY !
#define ERROR !
#define TRUE !
#define FALSE !
#define PI !
#define CHECK(x) !
#define REQUIRE(x) !
#define INFO(x) !
#define ASSERT(x) !
#define FORCE_INLINE !
#define RESTRICT !
#define ALIGN(x) !

#include "all.inc"
