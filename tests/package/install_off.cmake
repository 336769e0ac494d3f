# cmake -DSOURCE=. -DBUILD=dir -DGENERATOR=Ninja -DOPTIONS=... -P install_off.cmake: SWIGLU_INSTALL=OFF installs nothing.
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${BUILD})
foreach(install IN ITEMS OFF ON)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD}/${install} -G ${GENERATOR} ${OPTIONS} -DSWIGLU_INSTALL=${install}
            -DSWIGLU_BUILD_TESTS=OFF -DSWIGLU_BUILD_EXAMPLES=OFF -DSWIGLU_BUILD_BENCHMARKS=OFF
    COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD}/${install} --prefix ${BUILD}/prefix_${install}
                  COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endforeach()
file(GLOB_RECURSE installed ${BUILD}/prefix_OFF/*)
if(installed)
  message(FATAL_ERROR "SWIGLU_INSTALL=OFF installs ${installed}")
endif()
file(GLOB_RECURSE installed ${BUILD}/prefix_ON/*)
if(NOT installed) # the test could not have failed
  message(FATAL_ERROR "SWIGLU_INSTALL=ON installs nothing either")
endif()
