# cmake -DWORK_DIR=dir -P snippets_selftest.cmake: snippets.cmake accepts what is the compiled text and nothing else.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK_DIR})
file(WRITE ${WORK_DIR}/tests/docs/a.cpp
     "int f() {\n  // [sum]\n  int a[2] = {1, 2};\n\n  for (int i : a)\n    s += i;  // \\ and ; and ]\n  // [/sum]\n}\n")
set(good "int a[2] = {1, 2};\n\nfor (int i : a)\n  s += i;  // \\ and ; and ]\n")

function(check page accepted)
  file(WRITE ${WORK_DIR}/README.md "# A page; with [brackets\n\n${page}\nThe end.\n")
  execute_process(COMMAND ${CMAKE_COMMAND} -DROOT=${WORK_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/snippets.cmake
                  RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if((code EQUAL 0) AND NOT accepted OR accepted AND NOT (code EQUAL 0))
    message(FATAL_ERROR "accepted should be ${accepted}:\n${page}\n${out}")
  endif()
endfunction()

check("<!-- snippet: tests/docs/a.cpp#sum -->\n```cpp\n${good}```" TRUE)
check("<!-- snippet: tests/docs/a.cpp#sum -->\n\n```c++\n${good}```" TRUE)
check("```sh\nmake\n```" TRUE)
check("```cpp\n${good}```" FALSE)                                                    # no comment
check("<!-- snippet: tests/docs/a.cpp#sum -->\nText.\n```cpp\n${good}```" FALSE)     # not right above
check("<!-- snippet: tests/docs/a.cpp#sum -->\n```cpp\n${good}int b;\n```" FALSE)    # one line more
check("<!-- snippet: tests/docs/a.cpp#other -->\n```cpp\n${good}```" FALSE)          # no such region
check("<!-- snippet: tests/docs/a.cpp#other -->\n```cpp\n```" FALSE)                 # nor an empty one
check("<!-- snippet: tests/docs/b.cpp#sum -->\n```cpp\n${good}```" FALSE)            # no such file
check("<!-- snippet: tests/docs/a.cpp#sum -->\n```cpp\n${good}" FALSE)               # never closed
message(STATUS "snippets are told apart")
