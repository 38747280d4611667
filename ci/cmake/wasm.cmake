# The page of memory snapshots in a browser, without PyTorch: reader, analysis and page as WebAssembly, in one HTML file.
#
#     emcmake cmake --preset wasm -DTIDEMARK_ZLIB=/folder/of/zlib/sources && cmake --build build/wasm --target explain_page
#
# Needs Emscripten from 3.1.69 on (clang 19; Debian 13), the sources of zlib 1.3 (`apt-get source zlib`), the headers of fmt and nlohmann's JSON, and what
# ci/setup brings for the page (reports/README.md, "explain").
set(TIDEMARK_DEPS ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "folder that ci/setup filled")
set(TIDEMARK_ZLIB "" CACHE PATH "folder of zlib's sources")
set(TIDEMARK_HEADERS /usr/include CACHE PATH "folder with the headers of fmt and nlohmann's JSON")
find_package(Python3 REQUIRED COMPONENTS Interpreter)
if(NOT EXISTS ${TIDEMARK_ZLIB}/inflate.c)
  message(FATAL_ERROR " TIDEMARK_ZLIB: '${TIDEMARK_ZLIB}' has no inflate.c: name the folder of zlib's sources")
endif()
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
foreach(library fmt nlohmann)
  file(CREATE_LINK ${TIDEMARK_HEADERS}/${library} ${CMAKE_BINARY_DIR}/headers/${library} SYMBOLIC)
endforeach()

add_compile_options(-fwasm-exceptions -Oz "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/wasm_from_chars.h>")
foreach(name adler32 crc32 deflate inffast inflate inftrees trees zutil)
  list(APPEND zlib_sources ${TIDEMARK_ZLIB}/${name}.c)
endforeach()
add_library(zlib STATIC ${zlib_sources})
set_target_properties(zlib PROPERTIES UNITY_BUILD OFF)
target_include_directories(zlib SYSTEM PUBLIC ${TIDEMARK_ZLIB})
add_library(ZLIB::ZLIB ALIAS zlib)
foreach(name fmt nlohmann_json)
  add_library(${name}_headers INTERFACE)
  target_include_directories(${name}_headers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/headers)
endforeach()
target_compile_definitions(fmt_headers INTERFACE FMT_HEADER_ONLY)
add_library(fmt::fmt ALIAS fmt_headers)
add_library(nlohmann_json::nlohmann_json ALIAS nlohmann_json_headers)
add_library(tidemark_warnings INTERFACE) # but sizes of 32 bits: a file here has less than 2^32 of anything
target_compile_options(tidemark_warnings INTERFACE -Wall -Wextra -Wshadow -Werror -Wno-missing-field-initializers -Wno-deprecated-declarations)

# The folders' own lists of files; what belongs to tests is left out.
function(tidemark_test name) # never built, but its properties are set
  add_executable(${name} EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/reports/program/in_browser.cpp)
endfunction()
foreach(name tidemark_add_test tidemark_pytest tidemark_precompiled tidemark_inlines_little set_tests_properties)
  function(${name})
  endfunction()
endforeach()
add_library(SQLite::SQLite3 INTERFACE IMPORTED) # of the history of runs, which is not built
foreach(folder harness/record harness/memory reports)
  add_subdirectory(${folder} EXCLUDE_FROM_ALL)
endforeach()

add_executable(explain_wasm reports/program/in_browser.cpp)
target_link_libraries(explain_wasm PRIVATE program_reports tidemark_warnings)
target_link_options(explain_wasm PRIVATE -fwasm-exceptions -Oz -sSINGLE_FILE -sMODULARIZE -sEXPORT_NAME=tidemark -sENVIRONMENT=worker -sFILESYSTEM=0 -sALLOW_MEMORY_GROWTH
                                         -sMAXIMUM_MEMORY=4GB -sINITIAL_MEMORY=64MB -sSTACK_SIZE=1MB -sEXPORTED_RUNTIME_METHODS=UTF8ToString,stringToNewUTF8,HEAPU8
                                         -sEXPORTED_FUNCTIONS=_malloc,_free,_tidemark_add,_tidemark_page,_tidemark_said)
set(explain_page ${CMAKE_BINARY_DIR}/explain.html)
add_custom_command(OUTPUT ${explain_page} DEPENDS explain_wasm reports/page/explain.html reports/page/explain.py
                   COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/reports/page/explain.py ${CMAKE_SOURCE_DIR}/reports/page/explain.html $<TARGET_FILE:explain_wasm> ${explain_page})
add_custom_target(explain_page DEPENDS ${explain_page})
