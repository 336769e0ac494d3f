// SPDX-License-Identifier: MIT
#pragma once

// The version, once: CMake reads these three lines.

#define SWIGLU_VERSION_MAJOR 0
#define SWIGLU_VERSION_MINOR 1
#define SWIGLU_VERSION_PATCH 0
