# SPDX-License-Identifier: MIT
"""python3 conan_recipe.py ROOT VERSION: runs packaging/conan/conanfile.py with the part of Conan that it needs.

Conan itself need not be installed: what the recipe imports is written here, so that every method runs.
"""

import ast
import os
import pathlib
import shutil
import sys
import tempfile
import types


def module(name, **members):
    made = types.ModuleType(name)
    vars(made).update(members)
    sys.modules[name] = made


def copy(recipe, pattern, src, dst):
    found = [f for f in pathlib.Path(src).glob(pattern + ("*/**" if pattern.endswith("/") else "")) if f.exists()]
    for path in found:
        target = pathlib.Path(dst) / path.relative_to(src)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    assert found, f"nothing matches {pattern} in {src}"


class CMake:
    variables = None
    installed = False

    def __init__(self, recipe):
        pass

    def configure(self, variables=None):
        CMake.variables = variables

    def install(self):
        CMake.installed = True


class CppInfo:
    def __init__(self):
        self.properties = {}

    def set_property(self, name, value):
        self.properties[name] = value


class Settings:
    def get_safe(self, name):
        return {"os": "Linux"}.get(name)


class ConanFile:
    def __init__(self):
        self.requirements_made = []
        self.cpp_info = CppInfo()
        self.settings_of = Settings()
        self.info = types.SimpleNamespace(clear=lambda: setattr(self, "cleared", True))

    def requires(self, reference, **traits):
        self.requirements_made.append((reference, traits))


standards = []
module("conan", ConanFile=ConanFile)
module("conan.tools")
module("conan.tools.build", check_min_cppstd=lambda recipe, n: standards.append(n))
module("conan.tools.cmake", CMake=CMake, cmake_layout=lambda recipe: None)
module(
    "conan.tools.files",
    copy=copy,
    load=lambda recipe, path: pathlib.Path(path).read_text(),
    rmdir=lambda recipe, path: shutil.rmtree(path, ignore_errors=True),
)

root, version = pathlib.Path(sys.argv[1]), sys.argv[2]
folder = root / "packaging" / "conan"
ast.parse((folder / "test_package" / "conanfile.py").read_text())
names = {}
exec(compile((folder / "conanfile.py").read_text(), "conanfile.py", "exec"), names)

recipe = names["SwigluRecipe"]()
recipe.settings = recipe.settings_of
recipe.recipe_folder = str(folder)
recipe.set_version()
assert recipe.version == version, f"the recipe says {recipe.version}, version.hpp says {version}"

with tempfile.TemporaryDirectory() as work:
    recipe.export_sources_folder = recipe.source_folder = os.path.join(work, "source")
    recipe.package_folder = os.path.join(work, "package")
    recipe.export_sources()
    for needed in ("CMakeLists.txt", "LICENSE", "cmake/swiglu-dependencies.cmake", "include/swiglu/mlp.hpp"):
        assert os.path.exists(os.path.join(recipe.source_folder, needed)), f"not exported: {needed}"
    recipe.requirements()
    assert recipe.requirements_made == [("xsimd/[>=8.1]", {"transitive_headers": True})]
    recipe.validate()
    assert standards == [20]
    recipe.layout()
    recipe.package_id()
    assert recipe.cleared, "a header-only package is the same for all settings"
    recipe.build()
    assert CMake.variables["SWIGLU_INSTALL"] == "ON"
    options = set()
    for line in (root / "CMakeLists.txt").read_text().splitlines():
        if line.startswith("option("):
            options.add(line[len("option(") :].split()[0])
    assert set(CMake.variables) <= options, f"no such option: {set(CMake.variables) - options}"
    recipe.package()
    assert CMake.installed and os.path.exists(os.path.join(recipe.package_folder, "licenses", "LICENSE"))
    recipe.package_info()
    assert recipe.cpp_info.properties["cmake_target_name"] == "swiglu::swiglu"
print("the recipe runs")
