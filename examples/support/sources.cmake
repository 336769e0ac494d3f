# What several examples use, for examples/CMakeLists.txt and for the tests, which are built without the examples.
include_guard(GLOBAL)

find_package(nlohmann_json 3.2 CONFIG QUIET GLOBAL)
if(NOT TARGET nlohmann_json::nlohmann_json AND SWIGLU_FETCH_DEPS)
  swiglu_fetch(nlohmann_json)
endif()
if(NOT TARGET nlohmann_json::nlohmann_json)
  message(FATAL_ERROR "swiglu: the examples and their tests need nlohmann-json. Install it (Debian: nlohmann-json3-dev) "
                      "or set SWIGLU_FETCH_DEPS=ON; or set SWIGLU_BUILD_EXAMPLES=OFF and SWIGLU_BUILD_TESTS=OFF.")
endif()

add_library(example_support STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/safetensors.cpp)
set_target_properties(example_support PROPERTIES CXX_EXTENSIONS OFF)
target_include_directories(example_support PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(example_support PRIVATE swiglu_dev nlohmann_json::nlohmann_json)
