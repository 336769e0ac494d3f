# cmake -DPKG_CONFIG=pkg-config -DPREFIX=prefix -DCOMPILER=g++ -DSOURCE=main.cpp -DPROGRAM=program -DVERSION=x.y.z -P
# pkg_config.cmake: a bare compiler and what pkg-config says.
cmake_minimum_required(VERSION 3.25)

set(ENV{PKG_CONFIG_PATH} "${PREFIX}/share/pkgconfig:$ENV{PKG_CONFIG_PATH}")
execute_process(COMMAND ${PKG_CONFIG} --modversion swiglu OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
if(NOT version STREQUAL VERSION)
  message(FATAL_ERROR "swiglu.pc is of version ${version}, not ${VERSION}")
endif()
execute_process(COMMAND ${PKG_CONFIG} --exists "swiglu >= 99" RESULT_VARIABLE code)
if(code EQUAL 0)
  message(FATAL_ERROR "swiglu.pc claims to be version 99")
endif()
execute_process(COMMAND ${PKG_CONFIG} --cflags --libs swiglu OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
if(flags MATCHES "-(O[0-9]|m[a-z]|std|W)")
  message(FATAL_ERROR "swiglu.pc decides for the user: ${flags}")
endif()
separate_arguments(flags UNIX_COMMAND "${flags}")

file(REMOVE ${PROGRAM})
execute_process(COMMAND ${COMPILER} -std=c++20 -DEXPECTED_VERSION="${VERSION}" ${SOURCE} -o ${PROGRAM} ${flags}
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} COMMAND_ERROR_IS_FATAL ANY)
