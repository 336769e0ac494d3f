# cmake -DROOT=. -DVERSION=x.y.z -DWORK_DIR=dir -DGENERATOR=Ninja -DOPTIONS=... -P vcpkg.cmake: runs the port's script with
# what it calls of vcpkg, written here after vcpkg's documentation, and uses the package that comes of it.
cmake_minimum_required(VERSION 3.25)

set(port_dir ${ROOT}/packaging/vcpkg/swiglu)
file(READ ${port_dir}/vcpkg.json manifest)
string(JSON name GET "${manifest}" name)
string(JSON version GET "${manifest}" version)
string(JSON license GET "${manifest}" license)
string(JSON dependencies GET "${manifest}" dependencies)
if(NOT "${name} ${version} ${license}" STREQUAL "swiglu ${VERSION} MIT" OR NOT dependencies MATCHES "\"xsimd\"")
  message(FATAL_ERROR "vcpkg.json says ${name} ${version}, ${license}; this is swiglu ${VERSION}, MIT, on xsimd")
endif()

file(REMOVE_RECURSE ${WORK_DIR})
set(PORT swiglu)
set(CURRENT_PACKAGES_DIR ${WORK_DIR}/package)
set(called "")

function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${WORK_DIR}/build -G ${GENERATOR} ${OPTIONS}
                          ${arg_OPTIONS} -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR}
                  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${WORK_DIR}/build COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
# Moves the package's files to share/PORT and corrects the way from there to the prefix.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "CONFIG_PATH" "")
  file(COPY ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/ DESTINATION ${CURRENT_PACKAGES_DIR}/share/${PORT})
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH})
  file(GLOB files ${CURRENT_PACKAGES_DIR}/share/${PORT}/*.cmake)
  foreach(file IN LISTS files)
    file(READ ${file} text)
    string(REPLACE "\${CMAKE_CURRENT_LIST_DIR}/../../../" "\${CMAKE_CURRENT_LIST_DIR}/../../" text "${text}")
    string(REGEX REPLACE
           "(get_filename_component\\(_IMPORT_PREFIX \"[$]{_IMPORT_PREFIX}\" PATH\\)\n)get_filename_component\\(_IMPORT_PREFIX \"[$]{_IMPORT_PREFIX}\" PATH\\)\n"
           "\\1" text "${text}")
    file(WRITE ${file} "${text}")
  endforeach()
endfunction()
function(vcpkg_fixup_pkgconfig)
  if(NOT EXISTS ${CURRENT_PACKAGES_DIR}/share/pkgconfig/swiglu.pc)
    message(FATAL_ERROR "there is no swiglu.pc")
  endif()
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright COPYONLY)
endfunction()

include(${port_dir}/portfile.cmake)

# What vcpkg would complain about: files in lib/, no copyright, an empty directory, files outside of share/PORT.
file(GLOB_RECURSE files RELATIVE ${CURRENT_PACKAGES_DIR} LIST_DIRECTORIES TRUE ${CURRENT_PACKAGES_DIR}/*)
foreach(file IN LISTS files)
  if(NOT file MATCHES "^(include|share)(/swiglu(/|$)|$)|^share/pkgconfig(/swiglu.pc)?$")
    message(FATAL_ERROR "the package has ${file}")
  endif()
endforeach()
foreach(file IN ITEMS copyright usage swiglu-config.cmake swiglu-targets.cmake)
  if(NOT "share/swiglu/${file}" IN_LIST files)
    message(FATAL_ERROR "the package has no share/swiglu/${file}")
  endif()
endforeach()

# The snippet of `usage`, in a project.
file(WRITE ${WORK_DIR}/user/CMakeLists.txt
     "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES CXX)\nadd_library(main OBJECT main.cpp)\n")
file(STRINGS ${port_dir}/usage snippet REGEX "^    ")
list(JOIN snippet "\n" snippet)
file(APPEND ${WORK_DIR}/user/CMakeLists.txt "${snippet}\n")
file(WRITE ${WORK_DIR}/user/main.cpp "#include <swiglu/version.hpp>\n#include <swiglu/shape.hpp>\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK_DIR}/user -B ${WORK_DIR}/user/build -G ${GENERATOR} ${OPTIONS}
                        -DCMAKE_PREFIX_PATH=${CURRENT_PACKAGES_DIR} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
execute_process(COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR}/user/build COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
