# What tests/CMakeLists.txt is written in.

set(checks_dir ${CMAKE_CURRENT_LIST_DIR}/checks)
set(tests_dir ${CMAKE_CURRENT_LIST_DIR})

# swiglu_list_sources(file...): remembers that files are part of a test, for the check that every .cpp below tests/ is.
function(swiglu_list_sources)
  foreach(source IN LISTS ARGN)
    file(REAL_PATH ${source} source)
    set_property(GLOBAL APPEND PROPERTY SWIGLU_TEST_SOURCES ${source})
  endforeach()
endfunction()

# swiglu_test(NAME LABELS label... SOURCES file... [TIMEOUT seconds] [LIBRARIES target...] [OWN_MAIN] [LAUNCHER word...]
#             [ENVIRONMENT variable=value...])
#
# One program, by default of doctest test cases and with tests/support/main.cpp, and one ctest entry of the same name.
# Labels: unit, law, golden, docs, ...; `threads` for a test that starts threads (it gets both cores, and only these run
# under the thread sanitizer), with `openmp` if it does so by OpenMP, whose runtime that sanitizer does not understand;
# `mpi` and `gloo` for the transports. It fails if one of its sources ran no test case. With OWN_MAIN the sources bring
# their own main function, whose exit code decides. A LAUNCHER is what the program is started by.
function(swiglu_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MAIN" "TIMEOUT" "LABELS;SOURCES;LIBRARIES;LAUNCHER;ENVIRONMENT")
  if(NOT arg_LABELS OR NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "swiglu_test(${name}): LABELS and SOURCES are needed ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300) # sanitizers are slow
  endif()

  add_executable(${name} ${arg_SOURCES})
  swiglu_list_sources(${arg_SOURCES})
  set_target_properties(${name} PROPERTIES CXX_EXTENSIONS OFF RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_include_directories(${name} PRIVATE ${tests_dir})
  target_compile_definitions(${name} PRIVATE SWIGLU_TESTS_DIR="${tests_dir}") # for data files such as golden/
  target_link_libraries(${name} PRIVATE swiglu_dev ${arg_LIBRARIES})
  set(expected "")
  if(NOT arg_OWN_MAIN)
    target_link_libraries(${name} PRIVATE swiglu_test_main)
    foreach(source IN LISTS arg_SOURCES)
      cmake_path(GET source FILENAME file)
      list(APPEND expected ${file})
    endforeach()
    list(JOIN expected ":" expected)
    set(expected "SWIGLU_TEST_SOURCES=${expected}")
  endif()

  # What the sanitizer presets build: `tests`, and of these `tests_threads`; not the same tests for other instruction sets,
  # nor those that run in the processes of an MPI.
  if(NOT portability IN_LIST arg_LABELS AND NOT mpi IN_LIST arg_LABELS)
    add_dependencies(swiglu_tests ${name})
  endif()
  if(threads IN_LIST arg_LABELS)
    add_dependencies(swiglu_tests_threads ${name})
  endif()

  add_test(NAME ${name} COMMAND ${arg_LAUNCHER} $<TARGET_FILE:${name}>)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT}
                                          ENVIRONMENT "${expected};${arg_ENVIRONMENT}")
  if(threads IN_LIST arg_LABELS OR mpi IN_LIST arg_LABELS OR gloo IN_LIST arg_LABELS)
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# swiglu_mpi_test(NAME SOURCES file... [LIBRARIES target...]): a test NAME_<flavour> on four ranks for each MPI.
function(swiglu_mpi_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBRARIES")
  swiglu_list_sources(${arg_SOURCES})
  foreach(flavour IN LISTS mpi_flavours)
    swiglu_test(${name}_${flavour} LABELS unit law mpi SOURCES ${arg_SOURCES}
                LIBRARIES swiglu_mpi_${flavour} ${arg_LIBRARIES}
                LAUNCHER ${SWIGLU_MPIEXEC_${flavour}} -n 4 ENVIRONMENT ${mpi_environment})
  endforeach()
endfunction()

# swiglu_mpi_fault(NAME SOURCES file...): a program for each MPI whose scenes are jobs that fail;
# swiglu_mpi_scene(NAME SCENE TEXT): one of them, which has to end by itself, with a message that matches.
function(swiglu_mpi_fault name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  swiglu_list_sources(${arg_SOURCES})
  foreach(flavour IN LISTS mpi_flavours)
    add_executable(${name}_${flavour} ${arg_SOURCES})
    set_target_properties(${name}_${flavour} PROPERTIES CXX_EXTENSIONS OFF
                                                        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    target_link_libraries(${name}_${flavour} PRIVATE swiglu_dev swiglu_mpi_${flavour})
  endforeach()
endfunction()
function(swiglu_mpi_scene name scene text)
  foreach(flavour IN LISTS mpi_flavours)
    set(test ${name}_${flavour}.${scene})
    swiglu_check(${test} LABEL mpi SCRIPT job_fails.cmake "LAUNCHER=${SWIGLU_MPIEXEC_${flavour}}\\;-n\\;4"
                 PROGRAM=$<TARGET_FILE:${name}_${flavour}> ARGUMENT=${scene} "TEXT=${text}")
    set_tests_properties(${test} PROPERTIES ENVIRONMENT "${mpi_environment}" PROCESSORS 2)
  endforeach()
endfunction()

# swiglu_portability_test(NAME ABI isa OPTIONS option...): the portability test for another instruction set, which is
# SWIGLU_ABI there.
function(swiglu_portability_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ABI" "OPTIONS")
  # A library that is linked after swiglu_dev: its options come later on the command line, and the last -march wins. -O1,
  # because this is about what the code does; the optimised tests are about how the compiler deals with it.
  add_library(${name}_options INTERFACE)
  target_compile_options(${name}_options INTERFACE -O1 ${arg_OPTIONS})
  target_compile_definitions(${name}_options INTERFACE SWIGLU_EXPECTED_ABI=${arg_ABI})
  swiglu_test(${name} LABELS unit portability SOURCES portability_test.cpp simd_test.cpp LIBRARIES ${name}_options)
endfunction()

# swiglu_check(NAME LABEL label SCRIPT file.cmake [VAR=value...]): a check that is a CMake script in tests/checks.
function(swiglu_check name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;SCRIPT" "")
  list(TRANSFORM arg_UNPARSED_ARGUMENTS PREPEND -D OUTPUT_VARIABLE definitions)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} ${definitions} -P ${checks_dir}/${arg_SCRIPT})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 120)
endfunction()

# swiglu_flags_file(TARGET FILE): write the flags that users of TARGET get, for a compiler called by a script with @FILE.
function(swiglu_flags_file target file)
  # Other people's directories are -isystem, against warnings in their headers, except those that the compiler searches
  # anyway: named on the command line, /usr/include would come before the compiler's own and break #include_next.
  list(JOIN CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES "|" anyway)
  string(REPLACE "+" "[+]" anyway "${anyway}")
  set(directories $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
  set(system "$<FILTER:${directories},EXCLUDE,^(${PROJECT_SOURCE_DIR}/include|${anyway})/?$>")
  list(JOIN CMAKE_CXX20_STANDARD_COMPILE_OPTION "\n" options)
  string(APPEND options "\n$<JOIN:$<TARGET_PROPERTY:${target},INTERFACE_COMPILE_OPTIONS>,\n>\n"
         "-I\"${PROJECT_SOURCE_DIR}/include\"\n-I\"${CMAKE_CURRENT_BINARY_DIR}\"\n"
         "$<$<BOOL:${system}>:-isystem\"$<JOIN:${system},\"\n-isystem\">\"\n>")
  file(GENERATE OUTPUT ${file} CONTENT "${options}" TARGET ${target})
endfunction()

# swiglu_compile_fail(file.cpp...): cases for tests/checks/compile_fail.cmake, which says how one is written.
# swiglu_compile_fail(file.cpp REFUSED_BY_HARNESS "sentence"): a case of the harness itself, which has to refuse it so.
function(swiglu_compile_fail)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "REFUSED_BY_HARNESS" "")
  foreach(source IN LISTS arg_UNPARSED_ARGUMENTS)
    swiglu_list_sources(${source})
    cmake_path(GET source STEM LAST_ONLY name)
    swiglu_check(compile_fail.${name} LABEL compile_fail SCRIPT compile_fail.cmake
                 SOURCE=${CMAKE_CURRENT_SOURCE_DIR}/${source} COMPILER=${CMAKE_CXX_COMPILER}
                 FLAGS=@${CMAKE_CURRENT_BINARY_DIR}/compile_fail.flags)
    if(arg_REFUSED_BY_HARNESS)
      set_tests_properties(compile_fail.${name} PROPERTIES PASS_REGULAR_EXPRESSION "${arg_REFUSED_BY_HARNESS}")
    endif()
  endforeach()
endfunction()
