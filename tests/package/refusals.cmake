# cmake -DPREFIX=prefix -DWORK_DIR=dir -DGENERATOR=Ninja -DVERSION=x.y.z -DOPTIONS=... -P refusals.cmake: what find_package
# refuses, and what it then says; and what it does not refuse.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK_DIR})
set(number 0)

# Configures a project of the given lines; leaves result and output.
function(configure lines)
  math(EXPR number "${number} + 1")
  set(number ${number} PARENT_SCOPE)
  file(WRITE ${WORK_DIR}/${number}/CMakeLists.txt
       "cmake_minimum_required(VERSION 3.25)\nproject(asks LANGUAGES CXX)\n${lines}\n")
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR}/${number} -B ${WORK_DIR}/${number}/build -G ${GENERATOR} ${OPTIONS}
            -DCMAKE_PREFIX_PATH=${PREFIX} ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  set(result ${code} PARENT_SCOPE)
  string(REGEX REPLACE "[ \n]+" " " out "${out}") # CMake breaks its lines where it likes
  set(output "${out}" PARENT_SCOPE)
endfunction()

function(expect lines message)
  configure("${lines}" ${ARGN})
  set(number ${number} PARENT_SCOPE)
  if(message STREQUAL "" AND NOT result EQUAL 0)
    message(FATAL_ERROR "${lines}: refused:\n${output}")
  elseif(NOT message STREQUAL "" AND (result EQUAL 0 OR NOT output MATCHES "${message}"))
    message(FATAL_ERROR "${lines}: expected `${message}`, got exit ${result} and\n${output}")
  endif()
endfunction()

string(REGEX MATCH "^([0-9]+)[.]([0-9]+)" minor ${VERSION})
math(EXPR next "${CMAKE_MATCH_2} + 1")
expect("find_package(swiglu ${VERSION} EXACT CONFIG REQUIRED)" "")
expect("find_package(swiglu ${minor} CONFIG REQUIRED)" "")
expect("find_package(swiglu 99 REQUIRED)" "swiglu-config.cmake, version: ${VERSION}")
expect("find_package(swiglu ${CMAKE_MATCH_1}.${next} CONFIG REQUIRED)" "swiglu-config.cmake, version: ${VERSION}")
expect("find_package(swiglu CONFIG REQUIRED COMPONENTS core)" "")
expect("find_package(swiglu CONFIG REQUIRED COMPONENTS core gpu)" "swiglu, component gpu: there is no such component")
expect("find_package(swiglu CONFIG REQUIRED OPTIONAL_COMPONENTS gpu)
        if(swiglu_gpu_FOUND OR NOT TARGET swiglu::swiglu)
          message(FATAL_ERROR wrong)
        endif()" "")
expect("find_package(swiglu CONFIG REQUIRED)" "xsimd 8.1 or newer was not found" -DCMAKE_DISABLE_FIND_PACKAGE_xsimd=ON)
expect("add_library(xsimd INTERFACE)\nset(xsimd_VERSION 7.6.0)\nfind_package(swiglu CONFIG REQUIRED)"
       "xsimd 8.1 or newer is needed, found 7.6.0")

# A component whose own dependency is missing.
expect("find_package(swiglu CONFIG REQUIRED COMPONENTS mpi)" "swiglu, component mpi: no MPI 3.1 or newer was found"
       -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
expect("find_package(swiglu CONFIG REQUIRED COMPONENTS core OPTIONAL_COMPONENTS mpi)
        if(swiglu_mpi_FOUND OR NOT TARGET swiglu::swiglu)
          message(FATAL_ERROR wrong)
        endif()" "" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
