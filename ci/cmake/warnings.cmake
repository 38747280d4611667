# Every target of ours links this; headers of others are SYSTEM.
add_library(tidemark_warnings INTERFACE)
target_compile_options(tidemark_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Wno-missing-field-initializers
  $<$<CXX_COMPILER_ID:GNU>:-Wno-interference-size>
  # libstdc++ 12 calls what it deprecates, which clang 19 sees through precompiled headers
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # what GCC's -Wconversion leaves out
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion -Wno-implicit-int-float-conversion>)
