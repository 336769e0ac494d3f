# How dependencies are found: included by the build and by the installed swiglu-config.cmake.

# swiglu_find_xsimd(TARGET PROBLEM): the name of the target to link, or empty and a sentence that says why.
function(swiglu_find_xsimd target problem)
  set(${target} "" PARENT_SCOPE)
  set(${problem} "" PARENT_SCOPE)

  # Without a version: xsimd's own version file accepts only its own major version, so that asking for 8.1 would refuse
  # 13. The version is compared here instead.
  if(NOT TARGET xsimd AND NOT TARGET xsimd::xsimd)
    find_package(xsimd CONFIG QUIET)
    if(NOT xsimd_FOUND)
      set(${problem} "xsimd 8.1 or newer was not found." PARENT_SCOPE)
      return()
    endif()
  endif()
  if(xsimd_VERSION AND xsimd_VERSION VERSION_LESS 8.1)
    set(${problem} "xsimd 8.1 or newer is needed, found ${xsimd_VERSION} (${xsimd_CONFIG})." PARENT_SCOPE)
    return()
  endif()

  # Packages built with xtl support (Debian's) name the header-only xtl as a link item, but do not depend on it. Without
  # an xtl target it would become -lxtl, a library that exists nowhere; xsimd's headers do without it.
  if(TARGET xsimd)
    get_target_property(links xsimd INTERFACE_LINK_LIBRARIES)
    if("xtl" IN_LIST links AND NOT TARGET xtl)
      find_package(xtl CONFIG QUIET)
      if(TARGET xtl)
        set_property(TARGET xtl PROPERTY IMPORTED_GLOBAL TRUE) # xsimd may have been found by a directory above ours
      else()
        list(REMOVE_ITEM links xtl)
        set_property(TARGET xsimd PROPERTY INTERFACE_LINK_LIBRARIES ${links})
      endif()
    endif()
  endif()

  if(TARGET xsimd::xsimd) # from 14.3 on, in a build tree
    set(${target} xsimd::xsimd PARENT_SCOPE)
  else()
    set(${target} xsimd PARENT_SCOPE)
  endif()
endfunction()

# swiglu_add_mpi(PROBLEM): the target swiglu::mpi, which is swiglu::swiglu and an MPI; or a sentence that says why not.
function(swiglu_add_mpi problem)
  set(${problem} "" PARENT_SCOPE)
  if(NOT TARGET swiglu::mpi)
    set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON) # to be seen by the project that has swiglu as a subdirectory
    set(MPI_CXX_SKIP_MPICXX ON) # the C functions are used, not the bindings for C++ that MPI 3 has removed
    find_package(MPI 3.1 QUIET COMPONENTS CXX)
    if(NOT MPI_CXX_FOUND)
      set(${problem} "no MPI 3.1 or newer was found (Debian: libopenmpi-dev or libmpich-dev)." PARENT_SCOPE)
      return()
    endif()
    add_library(swiglu::mpi INTERFACE IMPORTED GLOBAL)
    target_link_libraries(swiglu::mpi INTERFACE swiglu::swiglu MPI::MPI_CXX)
  endif()
endfunction()

# swiglu_add_gloo(PROBLEM): the same for swiglu::gloo.
function(swiglu_add_gloo problem)
  set(${problem} "" PARENT_SCOPE)
  if(NOT TARGET swiglu::gloo)
    find_path(GLOO_INCLUDE_DIR gloo/allreduce.h)
    find_library(GLOO_LIBRARY gloo)
    mark_as_advanced(GLOO_INCLUDE_DIR GLOO_LIBRARY)
    if(NOT GLOO_INCLUDE_DIR OR NOT GLOO_LIBRARY)
      set(${problem} "Gloo was not found (Debian: libgloo-dev)." PARENT_SCOPE)
      return()
    endif()
    add_library(swiglu::gloo INTERFACE IMPORTED GLOBAL)
    target_include_directories(swiglu::gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
    target_link_libraries(swiglu::gloo INTERFACE swiglu::swiglu ${GLOO_LIBRARY})
  endif()
endfunction()

# swiglu_fetch(NAME): download a dependency at a pinned commit. Called only if SWIGLU_FETCH_DEPS is ON.
macro(swiglu_fetch name)
  include(FetchContent)
  if("${name}" STREQUAL "xsimd") # 13.2.0
    FetchContent_Declare(xsimd SYSTEM GIT_REPOSITORY https://github.com/xtensor-stack/xsimd.git
                         GIT_TAG 1f8dd9c8e162968d9b4ff0251c56d431b8777f36)
  elseif("${name}" STREQUAL "doctest") # 2.4.12
    set(DOCTEST_NO_INSTALL ON)
    FetchContent_Declare(doctest SYSTEM GIT_REPOSITORY https://github.com/doctest/doctest.git
                         GIT_TAG 1da23a3e8119ec5cce4f9388e91b065e20bf06f5)
  elseif("${name}" STREQUAL "nlohmann_json") # 3.11.3
    FetchContent_Declare(nlohmann_json SYSTEM GIT_REPOSITORY https://github.com/nlohmann/json.git
                         GIT_TAG 9cca280a4d0ccf0c08f47a99aa71d1b0e52f8d03)
  elseif("${name}" STREQUAL "benchmark") # 1.9.1
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    FetchContent_Declare(benchmark SYSTEM GIT_REPOSITORY https://github.com/google/benchmark.git
                         GIT_TAG c58e6d0710581e3a08d65c349664128a8d9a2461)
  endif()
  FetchContent_MakeAvailable(${name})
endmacro()
