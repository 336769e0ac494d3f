# cmake -DSOURCE=case.cpp -DCOMPILER=g++ -DFLAGS=@file -P compile_fail.cmake
#
# A case has a good half, which must compile, and a bad half (#ifdef SWIGLU_BAD), which must not, and whose messages
# must match every regular expression given in a line of its own, `// expect: REGEX` (CMake's dialect). The good half
# proves that the bad half fails for the reason given and not for a misspelt name. A line `// bad flags: FLAG...` adds
# flags to the bad half, which then may be the same text as the good one.
cmake_minimum_required(VERSION 3.25)

function(compile result output)
  execute_process(COMMAND ${COMPILER} ${FLAGS} -fsyntax-only ${ARGN} ${SOURCE}
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  set(${result} ${code} PARENT_SCOPE)
  set(${output} "${out}" PARENT_SCOPE)
endfunction()

file(READ ${SOURCE} text)
string(REGEX MATCHALL "// expect: [^\n]+" expectations "${text}")
set(bad_flags "")
if(text MATCHES "// bad flags: ([^\n]+)")
  separate_arguments(bad_flags UNIX_COMMAND "${CMAKE_MATCH_1}")
endif()
if(NOT expectations OR NOT (bad_flags OR text MATCHES "SWIGLU_BAD"))
  message(FATAL_ERROR "a case needs `#ifdef SWIGLU_BAD` or `// bad flags:`, and at least one line `// expect: REGEX`")
endif()

compile(code output)
if(NOT code EQUAL 0)
  message("${output}")
  message(FATAL_ERROR "the good half does not compile")
endif()

compile(code output -DSWIGLU_BAD ${bad_flags})
if(code EQUAL 0)
  message(FATAL_ERROR "the bad half compiles")
endif()
while(text MATCHES "// expect: ([^\n]+)\n(.*)") # one by one: as a list, a regex with [ or ; would fall apart
  set(expected "${CMAKE_MATCH_1}")
  set(text "${CMAKE_MATCH_2}")
  if(NOT output MATCHES "${expected}")
    message("${output}")
    message(FATAL_ERROR "the message does not match `${expected}`")
  endif()
  message(STATUS "found: ${CMAKE_MATCH_0}")
endwhile()
