enable_testing() # a test that hangs ends after ctest's own 1500 s; none has a limit of its own, which a slower machine would exceed
# What Open MPI needs on a small machine, for tests that call mpirun (ci/environment.sh).
set(TIDEMARK_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
                              OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_odls_base_sigkill_timeout=0
                              PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none
                              OMPI_MCA_reachable=weighted OMP_NUM_THREADS=1)

# The main() of every test, of one rank and of several.
foreach(kind test_main test_main_ranks)
  add_library(${kind} OBJECT ${CMAKE_SOURCE_DIR}/harness/testing/main.cpp)
  target_include_directories(${kind} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${kind} PRIVATE tidemark_warnings GTest::gtest)
endforeach()
target_compile_definitions(test_main_ranks PRIVATE TIDEMARK_TEST_RANKS)
add_executable(ranks_launcher ${CMAKE_SOURCE_DIR}/harness/testing/launch_ranks.cpp)
set_target_properties(ranks_launcher PROPERTIES OUTPUT_NAME ranks)
target_link_libraries(ranks_launcher PRIVATE tidemark_warnings ranks)

# tidemark_test(NAME SOURCES a_test.cpp ... [LIBRARIES ...] [RANKS n ...] [TORCH] [LAYER layer])
# One GoogleTest binary, one ctest entry (one a rank count with RANKS). An empty selection fails: the
# common main() refuses to run no test. LAYER (null, conformance, trial, mutation, approval ...) becomes ctest's label.
function(tidemark_test name)
  cmake_parse_arguments(arg "TORCH" "LAYER" "SOURCES;LIBRARIES;RANKS" ${ARGN})
  set(main test_main)
  if(arg_RANKS)
    set(main test_main_ranks)
  endif()
  # The linker keeps the first copy of a template's function: the optimised one of the library, not the test's own.
  set(first)
  if("reports_sample" IN_LIST arg_LIBRARIES)
    set(first $<TARGET_OBJECTS:reports> $<TARGET_OBJECTS:reports_sample>)
  endif()
  add_executable(${name} ${first} ${arg_SOURCES} $<TARGET_OBJECTS:${main}>)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF) # the files of a test have macros of their own
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE tidemark_warnings GTest::gtest GTest::gmock ${arg_LIBRARIES})
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE libtorch virtual_platform)
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "/harness/virtual/")
      target_link_libraries(${name} PRIVATE tidemark_device)
    endif()
    target_compile_options(${name} PRIVATE -O1) # without optimisation the precompiled header would not do
    tidemark_precompiled(${name} torch_headers)
  else()
    target_compile_options(${name} PRIVATE -O0) # a test is compiled more often than it runs
    tidemark_precompiled(${name} test_headers)
  endif()
  if(arg_RANKS)
    target_link_libraries(${name} PRIVATE ranks)
    add_dependencies(${name} ranks_launcher)
    foreach(ranks ${arg_RANKS})
      add_test(NAME ${name}.${ranks}
               COMMAND ranks_launcher ${ranks} $<TARGET_FILE:${name}>)
      list(APPEND tests ${name}.${ranks})
    endforeach()
  else()
    add_test(NAME ${name} COMMAND ${name})
    set(tests ${name})
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS "${arg_LAYER}" ENVIRONMENT "${TIDEMARK_TEST_ENVIRONMENT}")
endfunction()

set(TIDEMARK_PYTEST_ENVIRONMENT ${TIDEMARK_TEST_ENVIRONMENT} PYTHONPYCACHEPREFIX=${CMAKE_BINARY_DIR}/pycache PYTHONPATH=${TIDEMARK_DEPS}/pytest
    TIDEMARK_BIN=${CMAKE_BINARY_DIR}/tidemark TIDEMARK_DEPS=${TIDEMARK_DEPS})
string(MD5 build ${CMAKE_BINARY_DIR})
string(SUBSTRING ${build} 0 8 build)
set(TIDEMARK_EXEC_SERVER /tmp/tidemark-exec-server-${build}) # a socket's name has 107 characters at most

# tidemark_pytest(PREFIX SCRIPT LAYER [TOGETHER] [SERVED] [TESTS ...] [WORDS ...] [ENVIRONMENT ...] [PROPERTIES ...])
# Tests of pytest, each a test of ctest with the prefix before its name: those of the file, or those that TESTS names. WORDS are pytest's. With TOGETHER
# they are one test of ctest, since they share what takes long, or are over sooner than pytest has started. With SERVED their programs are copies of a
# process that has imported torch once for the whole run (harness/exec/testing/exec_server.py).
function(tidemark_pytest prefix script layer)
  cmake_parse_arguments(arg "TOGETHER;SERVED" "" "TESTS;WORDS;ENVIRONMENT;PROPERTIES" ${ARGN})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${script})
  if(NOT arg_TESTS)
    file(STRINGS ${CMAKE_SOURCE_DIR}/${script} lines REGEX "^def test_")
    list(TRANSFORM lines REPLACE "^def test_([a-z0-9_]+).*" "\\1" OUTPUT_VARIABLE arg_TESTS)
  endif()
  set(environment ${TIDEMARK_PYTEST_ENVIRONMENT} ${arg_ENVIRONMENT})
  if(arg_SERVED)
    list(APPEND environment EXEC_SERVER=${TIDEMARK_EXEC_SERVER})
    list(APPEND arg_PROPERTIES FIXTURES_REQUIRED exec_server)
  endif()
  set(command ${Python3_EXECUTABLE} -m pytest -q -p no:cacheprovider -o tmp_path_retention_policy=failed ${arg_WORDS} ${CMAKE_SOURCE_DIR}/${script})
  if(arg_TOGETHER)
    add_test(NAME ${prefix}test COMMAND ${command})
    set(tests ${prefix}test)
  else()
    set(tests)
    foreach(test ${arg_TESTS})
      add_test(NAME ${prefix}${test}_test COMMAND ${command}::test_${test})
      list(APPEND tests ${prefix}${test}_test)
    endforeach()
  endif()
  set_tests_properties(${tests} PROPERTIES LABELS ${layer} ENVIRONMENT "${environment}"
                       SKIP_REGULAR_EXPRESSION "\n[0-9]+ skipped" ${arg_PROPERTIES}) # that is, all of them
endfunction()
