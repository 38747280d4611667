# Every target of ours links this; headers of others are SYSTEM.
add_library(tidemark_warnings INTERFACE)
target_compile_options(tidemark_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
                                                  -Wno-interference-size -Wno-missing-field-initializers)
