# Imported targets for what ci/setup brought: libtorch's few libraries (its own CMake package wants a whole CUDA
# toolkit), CUDA's and NCCL's headers; and the Debian packages.
set(TIDEMARK_DEPS ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "folder that ci/setup filled")
if(NOT EXISTS ${TIDEMARK_DEPS}/torch/lib/libtorch_cuda.so)
  message(FATAL_ERROR "no libtorch in ${TIDEMARK_DEPS}: run ci/setup first (or set TIDEMARK_DEPS)")
endif()

add_library(cuda_headers INTERFACE)
target_include_directories(cuda_headers SYSTEM INTERFACE ${TIDEMARK_DEPS}/cuda/include ${TIDEMARK_DEPS}/cuda/include/cccl
                                                         ${TIDEMARK_DEPS}/nccl/include)

add_library(libtorch_headers INTERFACE)
target_include_directories(libtorch_headers SYSTEM INTERFACE ${TIDEMARK_DEPS}/torch/include
                                                             ${TIDEMARK_DEPS}/torch/include/torch/csrc/api/include)
target_link_libraries(libtorch_headers INTERFACE cuda_headers)

add_library(libtorch INTERFACE)
set(TIDEMARK_TORCH_LIB ${TIDEMARK_DEPS}/torch/lib)
target_link_directories(libtorch INTERFACE ${TIDEMARK_TORCH_LIB})
target_link_options(libtorch INTERFACE -Wl,--no-as-needed -Wl,-rpath,${TIDEMARK_TORCH_LIB}
                                       -Wl,-rpath-link,${TIDEMARK_TORCH_LIB})
target_link_libraries(libtorch INTERFACE libtorch_headers torch_cuda c10_cuda torch_cpu c10)

set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(benchmark REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(muparser REQUIRED)
find_package(rapidcheck REQUIRED) # for the tests
find_package(Python3 REQUIRED COMPONENTS Interpreter)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
