# cmake -DTESTS_DIR=tests -DLISTED=file -P sources_listed.cmake: every .cpp below tests/ belongs to a test.
cmake_minimum_required(VERSION 3.25)

file(STRINGS ${LISTED} listed)
file(GLOB_RECURSE sources ${TESTS_DIR}/*.cpp)
list(LENGTH sources count)
list(REMOVE_ITEM sources ${listed})
if(sources)
  list(JOIN sources "\n  " sources)
  message(FATAL_ERROR "in no test of tests/CMakeLists.txt:\n  ${sources}")
endif()
message(STATUS "${count} sources, all listed")
