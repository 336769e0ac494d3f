# cmake -DWORK_DIR=dir -P layers_selftest.cmake: layers.cmake finds every kind of breach, and none in a clean tree.

cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK_DIR})
function(header name)
  string(JOIN "\n" body ${ARGN})
  file(WRITE ${WORK_DIR}/include/swiglu/${name} "// SPDX-License-Identifier: MIT\n#pragma once\n${body}\n")
endfunction()
function(run result output)
  execute_process(COMMAND ${CMAKE_COMMAND} -DINCLUDE_DIR=${WORK_DIR}/include -P ${CMAKE_CURRENT_LIST_DIR}/layers.cmake
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  set(${result} ${code} PARENT_SCOPE)
  set(${output} "${out}" PARENT_SCOPE)
endfunction()

header(version.hpp "#define SWIGLU_VERSION_MAJOR 0")
header(config.hpp "#include <cstddef>" "#include <swiglu/version.hpp>")
header(shape.hpp "#include <swiglu/config.hpp>  // _mm512_add_ps in a comment is free")
header(simd.hpp "#include <xsimd/xsimd.hpp>" "inline auto f = _mm512_add_ps;"
       "typedef float four __attribute__((vector_size(16)));")
header(gemm/pack.hpp "#include <swiglu/simd.hpp>" "#include <swiglu/gemm/blocking.hpp>")
header(gemm/blocking.hpp "#include <swiglu/shape.hpp>")
header(comm/self.hpp "#include <swiglu/comm/communicator.hpp>")
header(comm/communicator.hpp "#include <span>")
header(mlp/forward.hpp "#include <swiglu/gemm/pack.hpp>" "#include <swiglu/comm/self.hpp>")
header(mlp.hpp "#include <swiglu/mlp/forward.hpp>")
run(result output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "a clean tree was refused:\n${output}")
endif()

header(shape.hpp "#include <swiglu/tensor.hpp>")
header(tensor.hpp "#include \"shape.hpp\"" "#define COLUMNS 3")
header(activation.hpp "#include <xsimd/xsimd.hpp>" "__m512 f(__m512);")
header(gemm/pack.hpp "#include <swiglu/comm/self.hpp>" "typedef float four __attribute__((vector_size(16)));")
header(gemm/blocking.hpp "four f(four a) { return __builtin_shufflevector(a, a, 0, 2, 4, 6); }")
header(comm/self.hpp "#include <swiglu/config.hpp>")
header(exec/serial.hpp "#include <swiglu/tensor.hpp>")
header(expr/node.hpp "#include <swiglu/expr/ops.hpp>")
header(expr/ops.hpp "#include <swiglu/expr/node.hpp>")
header(misc/other.hpp "")
string(REPEAT "\n" 351 newlines)
header(mlp/backward.hpp "${newlines}")
file(WRITE ${WORK_DIR}/include/swiglu/mlp.hpp "#pragma once\n")
run(result output)
if(result EQUAL 0)
  message(FATAL_ERROR "a tree full of breaches was accepted")
endif()
foreach(expected IN ITEMS
    "shape.hpp .layer 1.: includes tensor.hpp"
    "tensor.hpp: #include \"shape.hpp\" is not written"
    "tensor.hpp: defines the macro COLUMNS"
    "activation.hpp: includes <xsimd/xsimd.hpp>"
    "activation.hpp: intrinsic __m512"
    "gemm/pack.hpp: includes comm/self.hpp"
    "gemm/pack.hpp: intrinsic vector_size"
    "gemm/blocking.hpp: intrinsic __builtin_shuffle"
    "comm/self.hpp: includes config.hpp"
    "exec/serial.hpp: includes tensor.hpp"
    "these include each other: expr/node.hpp expr/ops.hpp"
    "misc/other.hpp: not in the table"
    "mlp/backward.hpp: 35[0-9] lines"
    "mlp.hpp: does not open with")
  if(NOT output MATCHES "${expected}")
    message(FATAL_ERROR "not found: ${expected}\nin:\n${output}")
  endif()
endforeach()
message(STATUS "every breach was found")
