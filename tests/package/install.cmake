# cmake -DBUILD=build -DPREFIX=prefix -P install.cmake: installs, and looks at what there is then.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${PREFIX}) # a header that is gone must not stay behind
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX} COMMAND_ERROR_IS_FATAL ANY
                OUTPUT_QUIET)
foreach(file IN ITEMS include/swiglu/mlp.hpp include/swiglu/version.hpp share/cmake/swiglu/swiglu-config.cmake
                      share/cmake/swiglu/swiglu-config-version.cmake share/pkgconfig/swiglu.pc share/doc/swiglu/LICENSE)
  if(NOT EXISTS ${PREFIX}/${file})
    message(FATAL_ERROR "not installed: ${file}")
  endif()
endforeach()
file(GLOB_RECURSE installed RELATIVE ${PREFIX} ${PREFIX}/*)
foreach(file IN LISTS installed)
  if(NOT file MATCHES "^(include/swiglu/.*[.]hpp|share/(cmake|doc)/swiglu/[^/]+|share/pkgconfig/swiglu[.]pc)$")
    message(FATAL_ERROR "nobody asked for ${file}")
  endif()
endforeach()
