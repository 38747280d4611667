# Headers that many targets include, compiled once for all of them.
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
  # The templates that the headers use are instantiated with them (CMake's default), which spares every file of PyTorch's
  # five seconds; without time stamps, so that ccache can tell that nothing changed.
  set(TIDEMARK_PCH_OPTIONS "SHELL:-Xclang -fno-pch-timestamp")
else()
  set(TIDEMARK_PCH_OPTIONS -fpch-preprocess) # for ccache
endif()

# tidemark_headers(NAME HEADERS <a.h> ... [OPTIONS ...] [LIBRARIES ...]); a target uses them by tidemark_precompiled(x NAME).
# Its language options, and whether it optimises at all, must be the same.
function(tidemark_headers name)
  cmake_parse_arguments(arg "" "" "HEADERS;OPTIONS;LIBRARIES" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE tidemark_warnings ${arg_LIBRARIES})
  target_compile_definitions(${name} PRIVATE GTEST_HAS_PTHREAD=1)
  target_compile_options(${name} PRIVATE ${TIDEMARK_PCH_OPTIONS} ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

function(tidemark_precompiled target headers)
  target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)
  target_compile_options(${target} PRIVATE ${TIDEMARK_PCH_OPTIONS})
  target_precompile_headers(${target} REUSE_FROM ${headers})
endfunction()

# For what runs once a command (flags, pages, tables), not once an event: a fifth less to compile, and a fifth slower.
function(tidemark_inlines_little)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE "SHELL:-mllvm -inline-threshold=5")
    endforeach()
  endif()
endfunction()

# PyTorch's headers alone take four seconds a file, even precompiled.
tidemark_headers(torch_headers LIBRARIES libtorch_headers GTest::gmock nlohmann_json::nlohmann_json
                 HEADERS <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <c10/cuda/CUDACachingAllocator.h> <c10/cuda/CUDAStream.h>
                         <c10/cuda/CUDAEvent.h> <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
# What renders and reads files.
tidemark_headers(json_headers LIBRARIES fmt::fmt nlohmann_json::nlohmann_json
                 HEADERS <nlohmann/json.hpp> <fmt/format.h> <fmt/ranges.h> <algorithm> <filesystem> <fstream> <map> <set> <string> <vector>)
# A test without libtorch: half of what it costs to compile. It is compiled more often than it runs, so not optimised.
tidemark_headers(test_headers OPTIONS -O0 LIBRARIES GTest::gmock nlohmann_json::nlohmann_json HEADERS <gmock/gmock.h> <gtest/gtest.h> <nlohmann/json.hpp>)
