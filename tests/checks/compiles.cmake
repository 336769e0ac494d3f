# cmake -DSOURCE=unit.cpp -DCOMPILER=g++ -DFLAGS=@file -P compiles.cmake
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${COMPILER} ${FLAGS} -fsyntax-only ${SOURCE} RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "does not compile: ${SOURCE}")
endif()
