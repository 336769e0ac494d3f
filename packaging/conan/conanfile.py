# SPDX-License-Identifier: MIT
"""Packages the tree that this recipe stands in."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, cmake_layout
from conan.tools.files import copy, load, rmdir


class SwigluRecipe(ConanFile):
    name = "swiglu"
    description = "The fused SwiGLU MLP layer on CPU, forward and backward"
    license = "MIT"
    topics = ("header-only", "simd", "machine-learning", "expression-templates")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps"
    no_copy_source = True

    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        text = load(self, os.path.join(self._root(), "include", "swiglu", "version.hpp"))
        parts = (re.search(rf"#define SWIGLU_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH"))
        self.version = ".".join(found.group(1) for found in parts)

    def export_sources(self):
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, self._root(), self.export_sources_folder)

    def requirements(self):
        self.requires("xsimd/[>=8.1]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        self.info.clear()

    def build(self):
        cmake = CMake(self)
        cmake.configure(
            variables={
                "SWIGLU_BUILD_TESTS": "OFF",
                "SWIGLU_BUILD_BENCHMARKS": "OFF",
                "SWIGLU_BUILD_EXAMPLES": "OFF",
                "SWIGLU_INSTALL": "ON",
            }
        )

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "share"))  # Conan writes the CMake and pkg-config files itself

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "swiglu")
        self.cpp_info.set_property("cmake_target_name", "swiglu::swiglu")
        self.cpp_info.set_property("pkg_config_name", "swiglu")
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
