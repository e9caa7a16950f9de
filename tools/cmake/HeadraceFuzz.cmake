# headrace_fuzz(name SOURCES x_fuzz.cc SEEDS dir... [DEFINES ...] [LINK ...] [RUNS 2000])
#
# One executable from sources that define LLVMFuzzerTestOneInput. With HEADRACE_FUZZ it is a libFuzzer target; else a
# plain driver replays the seeds and RUNS mutations of them, so that every build runs every target, with any compiler.
# Either way ctest has an entry of that name with the label fuzz.
function(headrace_fuzz name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RUNS" "SOURCES;SEEDS;DEFINES;LINK")
  if(NOT arg_RUNS)
    set(arg_RUNS 2000)
  endif()
  foreach(seeds IN LISTS arg_SEEDS)
    if(NOT IS_DIRECTORY ${seeds})
      message(FATAL_ERROR "headrace_fuzz(${name}): no such folder of seeds: ${seeds}")
    endif()
  endforeach()
  add_executable(${name} ${arg_SOURCES})
  headrace_target_defaults(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE ${arg_DEFINES})
  target_link_libraries(${name} PRIVATE headrace headrace_deps ${arg_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  if(HEADRACE_FUZZ)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    # Seeds are copied into a working corpus, since libFuzzer writes what it finds into its first folder.
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz/corpus/${name})
    add_test(NAME ${name} COMMAND ${name} -runs=${arg_RUNS} -seed=1 -max_len=65536 -timeout=10 -rss_limit_mb=2048
             ${PROJECT_BINARY_DIR}/fuzz/corpus/${name} ${arg_SEEDS})
  else()
    target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_driver.cc)
    add_test(NAME ${name} COMMAND ${name} --mutate ${arg_RUNS} --seed 1 ${arg_SEEDS})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
endfunction()
