# How layers, parts and tests are declared. Adding a part is one folder and one add_subdirectory line.
#
#   headrace_layer(io SOURCES queue.cc ... DEPENDS base)
#   headrace_plugin(io_uring KIND io
#     DECLARE "namespace headrace::io { Result<std::unique_ptr<Engine>> make_uring_engine(const EngineOptions&); }"
#     ROWS "\"io_uring\", &headrace::io::make_uring_engine"
#     SOURCES uring_engine.cc LINK headrace_dep_uring TESTS uring_engine_test.cc)
#
# Every part's row goes into a table that src/<kind>/registry.cc includes, in the order of the add_subdirectory lines:
# no static constructors, no forced references, and the list of parts is a file one can read in the build folder.
set(HEADRACE_KINDS io device store codec)

function(headrace_layer name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;TESTS" ${ARGN})
  add_library(headrace_${name} OBJECT ${arg_SOURCES})
  headrace_target_defaults(headrace_${name})
  target_link_libraries(headrace_${name} PRIVATE ${arg_LINK})
  headrace_batch_sources(headrace_${name})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_OBJECTS headrace_${name})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_LINK ${arg_LINK})
  headrace_collect_tests(${arg_TESTS})
endfunction()

# HEADRACE_BATCH sources are compiled as one: most of what compiling takes goes into headers that they share.
function(headrace_batch_sources target)
  if(HEADRACE_BATCH)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${HEADRACE_BATCH})
    # A class with members of the unnamed namespace looks like a header's to the compiler then.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

function(headrace_target_defaults target)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE headrace_flags nlohmann_json::nlohmann_json Threads::Threads)
endfunction()

# ROWS is the initialiser of the row after its MAKE functions, as the kind's row struct has them.
# UNDER_TEST, of a store: a header x_under_test.h, whose x_under_test() tells suites how such a store is filled.
# SEED_CONFIG, of a codec: a header x_seed_config.h, whose x_seed_config() gives the configuration of a seed, where {} is none.
# DEVICE_CODE_TESTS are those that include tests/support/cuda_on_cpu.h.
# TEST_LINK names libraries that only tests need, such as a reference implementation to compare with.
function(headrace_plugin name)
  # PARSE_ARGV keeps the semicolons of a C++ declaration from splitting it into list elements.
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND;UNDER_TEST;SEED_CONFIG" "ROWS;DECLARE;SOURCES;LINK;TESTS;DEVICE_CODE_TESTS;TEST_LINK")
  if(NOT arg_KIND IN_LIST HEADRACE_KINDS)
    message(FATAL_ERROR "headrace_plugin(${name}): KIND must be one of ${HEADRACE_KINDS}")
  endif()
  add_library(headrace_${name} OBJECT ${arg_SOURCES})
  headrace_target_defaults(headrace_${name})
  target_link_libraries(headrace_${name} PRIVATE ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_OBJECTS headrace_${name})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_LINK ${arg_LINK})
  foreach(row IN LISTS arg_ROWS)
    set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_ROWS_${arg_KIND} "    {${row}},\n")
  endforeach()
  foreach(declaration IN LISTS arg_DECLARE)
    set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_DECLARE_${arg_KIND} "${declaration}\n")
  endforeach()
  # For tests/support: a table of what the headers define.
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  get_filename_component(row ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  foreach(table IN ITEMS UNDER_TEST SEED_CONFIG)
    if(arg_${table})
      get_filename_component(function ${arg_${table}} NAME_WE)
      set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_${table}_INCLUDES "#include \"${folder}/${arg_${table}}\"\n")
      set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_${table}_ROWS " \\\n    {\"${row}\", &${function}},")
    endif()
  endforeach()
  set(threads "")
  if(arg_KIND STREQUAL "codec")
    set(threads SINGLE_THREADED)
  endif()
  headrace_collect_tests(${threads} ${arg_TESTS})
  list(TRANSFORM arg_DEVICE_CODE_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY HEADRACE_COLLECTED_DEVICE_CODE_TESTS ${arg_DEVICE_CODE_TESTS})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_TEST_LINK ${arg_TEST_LINK})
  set_property(GLOBAL APPEND PROPERTY HEADRACE_PARTS "${arg_KIND}/${name}")
endfunction()

# A codec's device code, compiled into the CUDA plug-in: headrace_gpu_codec(lz4 SOURCES lz4_stage.cu
#   MAKE headrace::codec::gpu::make_lz4_stage). Nothing happens in a build without CUDA.
function(headrace_gpu_codec name)
  cmake_parse_arguments(arg "" "MAKE" "SOURCES;TESTS" ${ARGN})
  if(NOT HEADRACE_CUDA_ENABLED)
    return()
  endif()
  # Without SOURCES the code is another codec's.
  if(arg_SOURCES)
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    target_sources(headrace_cuda PRIVATE ${arg_SOURCES})
  endif()
  string(REGEX REPLACE "::[^:]*$" "" space ${arg_MAKE})
  string(REGEX REPLACE "^.*::" "" function ${arg_MAKE})
  set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_GPU_STAGE_DECLARE
    "namespace ${space} { std::unique_ptr<headrace::device::gpu::GpuCodec> ${function}(const headrace::device::DecodeStage&)%SEMICOLON% }\n")
  set_property(GLOBAL APPEND_STRING PROPERTY HEADRACE_GPU_STAGE_ROWS " \\\n    {\"${name}\", &${arg_MAKE}},")
  headrace_collect_gpu_tests(${arg_TESTS})
endfunction()

function(headrace_collect_gpu_tests)
  foreach(test IN LISTS ARGN)
    set_property(GLOBAL APPEND PROPERTY HEADRACE_COLLECTED_GPU_TESTS ${CMAKE_CURRENT_SOURCE_DIR}/${test})
  endforeach()
endfunction()

# Once all codecs are declared.
function(headrace_finish_gpu_codecs)
  if(NOT HEADRACE_CUDA_ENABLED)
    return()
  endif()
  get_property(declarations GLOBAL PROPERTY HEADRACE_GPU_STAGE_DECLARE)
  get_property(rows GLOBAL PROPERTY HEADRACE_GPU_STAGE_ROWS)
  string(REPLACE "%SEMICOLON%" ";" declarations "${declarations}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/gpu_stages.inc
       CONTENT "// Generated: the codecs with GPU code in this build.\n@declarations@#define HEADRACE_GPU_STAGE_ROWS@rows@\n" @ONLY)
  target_include_directories(headrace_cuda PRIVATE ${PROJECT_BINARY_DIR}/generated ${PROJECT_SOURCE_DIR})
endfunction()

# Tests of layers and parts are declared beside their sources, before the library is complete; they are created later.
function(headrace_collect_tests)
  cmake_parse_arguments(arg "SINGLE_THREADED" "" "" ${ARGN})
  set(list HEADRACE_COLLECTED_TESTS)
  if(arg_SINGLE_THREADED)
    set(list HEADRACE_COLLECTED_SINGLE_THREADED_TESTS)
  endif()
  foreach(test IN LISTS arg_UNPARSED_ARGUMENTS)
    set_property(GLOBAL APPEND PROPERTY ${list} ${CMAKE_CURRENT_SOURCE_DIR}/${test})
  endforeach()
endfunction()

function(headrace_add_collected_tests)
  find_package(GTest REQUIRED)
  add_library(headrace_no_threads OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tests/support/no_threads.cc)
  headrace_target_defaults(headrace_no_threads)
  get_property(tests GLOBAL PROPERTY HEADRACE_COLLECTED_TESTS)
  foreach(test IN LISTS tests)
    headrace_test(${test} LABELS unit)
  endforeach()
  get_property(tests GLOBAL PROPERTY HEADRACE_COLLECTED_SINGLE_THREADED_TESTS)
  foreach(test IN LISTS tests)
    headrace_test(${test} LABELS unit SINGLE_THREADED)
  endforeach()
  get_property(tests GLOBAL PROPERTY HEADRACE_COLLECTED_DEVICE_CODE_TESTS)
  foreach(test IN LISTS tests)
    headrace_test(${test} LABELS unit DEVICE_CODE)
  endforeach()
  get_property(tests GLOBAL PROPERTY HEADRACE_COLLECTED_GPU_TESTS)
  foreach(test IN LISTS tests)
    headrace_test(${test} LABELS gpu TIMEOUT 300)
    get_filename_component(name ${test} NAME_WE)
    if(TARGET ${name})
      add_dependencies(${name} headrace_cuda)
    endif()
  endforeach()
endfunction()

# Whether a test with these labels is to be built.
function(headrace_label_wanted out)
  set(wanted ON)
  if(HEADRACE_TEST_LABELS)
    set(wanted OFF)
    foreach(label IN LISTS ARGN)
      if(label IN_LIST HEADRACE_TEST_LABELS)
        set(wanted ON)
      endif()
    endforeach()
  endif()
  set(${out} ${wanted} PARENT_SCOPE)
endfunction()

# For an executable that runs device code as coroutines (tests/support/cuda_on_cpu.h).
function(headrace_runs_device_code target)
  if(HEADRACE_FUZZ)
    target_compile_options(${target} PRIVATE -O2)
  endif()
  if(HEADRACE_SANITIZE MATCHES address)
    # Checking for use after return maps a second stack for every coroutine: forty times slower.
    target_compile_options(${target} PRIVATE $<IF:$<CXX_COMPILER_ID:GNU>,--param=asan-use-after-return=0,-fsanitize-address-use-after-return=never>)
  endif()
endfunction()

# The steps of headrace_test, which has the arguments.
macro(headrace_test_program program source)
  add_executable(${program} ${source})
  headrace_target_defaults(${program})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${program} PRIVATE headrace_test_support headrace headrace_deps GTest::gtest)
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(arg_SINGLE_THREADED AND NOT HEADRACE_SANITIZE)
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:headrace_no_threads>)
  endif()
  if(arg_DEVICE_CODE)
    headrace_runs_device_code(${program})
    target_link_libraries(${program} PRIVATE headrace_decoders_on_cpu)
  endif()
endmacro()

# Sets program: that of a folder's tests that are alike (tests/support/batch_main.cc). Its sources are compiled
# HEADRACE_BATCH as one: most of what compiling a test takes goes into headers.
macro(headrace_batched_program)
  get_filename_component(program ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(CMAKE_CURRENT_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
    set(program part)
  endif()
  # A test gets no library that puts something in the place of the C library's, or starts something, that it did not ask for.
  set(own ${arg_LINK})
  list(FILTER own EXCLUDE REGEX "^headrace_(dep_|cli_parts)")
  foreach(trait IN ITEMS DEVICE_CODE SINGLE_THREADED)
    if(arg_${trait})
      list(APPEND own ${trait})
    endif()
  endforeach()
  list(PREPEND own ${program}_tests)
  list(JOIN own _ program)
  string(TOLOWER ${program} program)
  string(REPLACE _headrace_ _ program ${program})
  if(NOT TARGET ${program})
    headrace_test_program(${program} ${PROJECT_SOURCE_DIR}/tests/support/batch_main.cc)
    target_compile_definitions(${program} PRIVATE HEADRACE_TEST_PROGRAM="${program}")
    # A class in an unnamed namespace looks like a header's to the compiler there.
    target_compile_options(${program} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL headrace_write_batches ${program})")
  endif()
endmacro()

function(headrace_write_batches program)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  set(script ${PROJECT_SOURCE_DIR}/tools/cmake/batch_sources.py)
  get_property(sources TARGET ${program} PROPERTY HEADRACE_BATCHED)
  list(TRANSFORM sources PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  set(number 0)
  while(sources)
    list(SUBLIST sources 0 ${HEADRACE_BATCH} some)
    list(REMOVE_ITEM sources ${some})
    set(batch ${CMAKE_CURRENT_BINARY_DIR}/${program}_${number}.cc)
    math(EXPR number "${number} + 1")
    add_custom_command(OUTPUT ${batch} COMMAND ${Python3_EXECUTABLE} ${script} ${batch} ${some} DEPENDS ${some} ${script}
                       WORKING_DIRECTORY ${PROJECT_BINARY_DIR} COMMENT "Joining tests: ${program} ${number}" VERBATIM)
    target_sources(${program} PRIVATE ${batch})
  endwhile()
endfunction()

# headrace_test(file.cc LABELS unit [LINK ...] [SOURCES ...] [TIMEOUT 120] [DEVICE_CODE] [SINGLE_THREADED] [ALONE]): one ctest
# entry, and <build>/tests/file to start by hand. DEVICE_CODE: it includes tests/support/cuda_on_cpu.h. SINGLE_THREADED: nothing
# for ThreadSanitizer. ALONE: a program of its own even where HEADRACE_BATCH joins tests, for one that has what a program has
# once: a main() or malloc() of its own, include folders, a macro that headers look for, cases that stand in a header.
function(headrace_test source)
  cmake_parse_arguments(arg "DEVICE_CODE;SINGLE_THREADED;ALONE" "TIMEOUT" "LABELS;LINK;SOURCES" ${ARGN})
  headrace_label_wanted(wanted ${arg_LABELS})
  if(NOT wanted)
    return()
  endif()
  # Coroutines switch stacks behind ThreadSanitizer's back, and without threads it has nothing to see.
  if((arg_DEVICE_CODE OR arg_SINGLE_THREADED) AND HEADRACE_SANITIZE MATCHES thread)
    return()
  endif()
  get_filename_component(name ${source} NAME_WE)
  set(executable ${PROJECT_BINARY_DIR}/tests/${name})
  if(HEADRACE_BATCH AND NOT arg_ALONE AND source MATCHES "\\.cc$")
    headrace_batched_program()
    set_property(TARGET ${program} APPEND PROPERTY HEADRACE_BATCHED ${source})
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
    file(CREATE_LINK ${program} ${executable} SYMBOLIC)
    add_custom_target(${name})
    add_dependencies(${name} ${program})
  else()
    set(program ${name})
    if(IS_SYMLINK ${executable})
      file(REMOVE ${executable})
    endif()
    headrace_test_program(${program} ${source})
    target_link_libraries(${program} PRIVATE GTest::gtest_main)
  endif()
  target_sources(${program} PRIVATE ${arg_SOURCES})
  target_link_libraries(${program} PRIVATE ${arg_LINK})
  add_test(NAME ${name} COMMAND ${executable})
  # Many times what they take: the machine may have other work.
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 200)
    if(arg_DEVICE_CODE)
      set(arg_TIMEOUT 300)
    endif()
  endif()
  if(HEADRACE_SANITIZE)
    math(EXPR arg_TIMEOUT "3 * ${arg_TIMEOUT}")
  endif()
  # COST: those that are given most time begin first, so that none of them is alone at the end.
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT} SKIP_RETURN_CODE 77
    ENVIRONMENT "HEADRACE_PLUGIN_DIR=${PROJECT_BINARY_DIR}/lib;HEADRACE_BIN_DIR=${PROJECT_BINARY_DIR}/bin;HEADRACE_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endfunction()

# HEADER in the build's folder `generated`: what headers of parts say by headrace_plugin(... TABLE header).
function(headrace_write_test_table table header)
  get_property(includes GLOBAL PROPERTY HEADRACE_${table}_INCLUDES)
  get_property(rows GLOBAL PROPERTY HEADRACE_${table}_ROWS)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${header}
       CONTENT "// Generated: what parts of this build say by ${table}.\n@includes@#define HEADRACE_${table}_ROWS@rows@\n" @ONLY)
endfunction()

function(headrace_finish_library)
  foreach(kind IN LISTS HEADRACE_KINDS)
    get_property(rows GLOBAL PROPERTY HEADRACE_ROWS_${kind})
    get_property(declarations GLOBAL PROPERTY HEADRACE_DECLARE_${kind})
    # The rows become one macro body: continuation lines.
    string(REPLACE "\n" " \\\n" body "${rows}")
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/builtin_${kind}.inc
         CONTENT "// Generated: the parts enabled in this build, in order of preference.\n@declarations@#define HEADRACE_BUILTIN_ROWS \\\n@body@\n" @ONLY)
  endforeach()
  get_property(objects GLOBAL PROPERTY HEADRACE_OBJECTS)
  get_property(link GLOBAL PROPERTY HEADRACE_LINK)
  list(REMOVE_DUPLICATES link)
  add_library(headrace_deps INTERFACE)
  target_link_libraries(headrace_deps INTERFACE ${link} Threads::Threads ${CMAKE_DL_LIBS})
  if(HEADRACE_DEVELOPER_MODE)
    get_property(test_link GLOBAL PROPERTY HEADRACE_TEST_LINK)
    target_link_libraries(headrace_deps INTERFACE ${test_link})
  endif()
  foreach(object IN LISTS objects)
    target_sources(headrace PRIVATE $<TARGET_OBJECTS:${object}>)
  endforeach()
  target_include_directories(headrace PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_libraries(headrace PRIVATE ${link} headrace_flags Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_features(headrace PUBLIC cxx_std_20)
  # Programs built against one minor version run with that one only, as long as the major version is 0.
  set(so_version ${PROJECT_VERSION_MAJOR})
  if(so_version EQUAL 0)
    set(so_version 0.${PROJECT_VERSION_MINOR})
  endif()
  set_target_properties(headrace PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${so_version})
  if(BUILD_SHARED_LIBS)
    # Tests reach into the layers, which a shared library hides: shared builds are for users, without developer mode.
    target_link_options(headrace PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/tools/cmake/headrace.map
                        -Wl,--exclude-libs,ALL)
    set_property(TARGET headrace PROPERTY LINK_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cmake/headrace.map)
  endif()
endfunction()

# libcufile.so.0. In a folder of its own: a program gets it by being pointed there, never by chance.
function(headrace_finish_cufile)
  add_library(headrace_cufile SHARED $<TARGET_OBJECTS:headrace_cufile_objects>)
  add_library(headrace::cufile ALIAS headrace_cufile)  # as the installed package calls it
  target_include_directories(headrace_cufile INTERFACE ${PROJECT_SOURCE_DIR}/include/cufile)
  set(map ${PROJECT_SOURCE_DIR}/src/cufile/cufile.map)
  if(BUILD_SHARED_LIBS)
    # The shared headrace hides what is needed.
    get_property(objects GLOBAL PROPERTY HEADRACE_OBJECTS)
    foreach(object IN LISTS objects)
      target_sources(headrace_cufile PRIVATE $<TARGET_OBJECTS:${object}>)
    endforeach()
  else()
    target_link_libraries(headrace_cufile PRIVATE headrace)
  endif()
  target_link_libraries(headrace_cufile PRIVATE headrace_deps headrace_flags)
  # Stays loaded: its threads and the ends of a program's threads run its code after a dlclose().
  target_link_options(headrace_cufile PRIVATE -Wl,--version-script=${map} -Wl,--exclude-libs,ALL -Wl,-z,nodelete
                      -Wl,--gc-sections)
  if(NOT HEADRACE_SANITIZE AND NOT HEADRACE_FUZZ)
    target_link_options(headrace_cufile PRIVATE -Wl,-z,defs)
  endif()
  set_target_properties(headrace_cufile PROPERTIES OUTPUT_NAME cufile VERSION 1.15.0 SOVERSION 0 LINK_DEPENDS ${map}
                        LINKER_LANGUAGE CXX)
  if(PROJECT_IS_TOP_LEVEL)
    set_target_properties(headrace_cufile PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/cufile)
    # As installed: beside the library, and below the folder of the command line tool.
    file(COPY ${PROJECT_SOURCE_DIR}/src/cufile/cufile.json DESTINATION ${PROJECT_BINARY_DIR}/lib/cufile)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
    file(CREATE_LINK ../lib/cufile ${PROJECT_BINARY_DIR}/bin/cufile SYMBOLIC)
  endif()
endfunction()

function(headrace_print_summary)
  get_property(parts GLOBAL PROPERTY HEADRACE_PARTS)
  string(JOIN " " text ${parts})
  message(STATUS "headrace ${PROJECT_VERSION}: parts ${text}")
  message(STATUS "headrace: CUDA ${HEADRACE_CUDA_ENABLED}, developer mode ${HEADRACE_DEVELOPER_MODE}, "
                 "fault points ${HEADRACE_FAULT_POINTS}, sanitizers '${HEADRACE_SANITIZE}'")
endfunction()
