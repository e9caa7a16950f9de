# Options, compile flags and dependencies. CMAKE_CXX_FLAGS is not changed, so a parent project is unaffected.
include(GNUInstallDirs)

option(HEADRACE_DEVELOPER_MODE "build tests, fuzz targets and benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(HEADRACE_INSTALL "create install rules" ${PROJECT_IS_TOP_LEVEL})
option(HEADRACE_WERROR "warnings are errors" ${HEADRACE_DEVELOPER_MODE})
option(HEADRACE_FAULT_POINTS "compile fault points in" OFF)
option(HEADRACE_FUZZ "libFuzzer targets instead of replay drivers (clang)" OFF)
option(HEADRACE_STATIC_DEPS "link third-party libraries statically" OFF)
option(HEADRACE_STATIC_RUNTIME "link the compiler's C++ library statically" OFF)
option(HEADRACE_ZFP "the codecs zfp and numcodecs.zfpy, where libzfp is installed" ON)
set(HEADRACE_PYTHON "" CACHE STRING "build the Python package for this interpreter (a path, or ON: the one CMake finds); empty: none")
set(HEADRACE_SANITIZE "" CACHE STRING "sanitizers: address,undefined or thread")
set(HEADRACE_TEST_LABELS "" CACHE STRING "build only tests with one of these labels (;-list); empty: all")
set(HEADRACE_BATCH 0 CACHE STRING "how many sources to compile as one; tests are also linked as one program. 0: each by itself")
option(HEADRACE_QUICK_BUILD "compile device code, tests, tools and bindings quickly and not to run fast, and no GPU tests: for machines without a GPU" OFF)
option(HEADRACE_LEAVE_OUT_SANITIZED "do not build tests of which AddressSanitizer's build runs every case" OFF)
set(HEADRACE_CUDA AUTO CACHE STRING "CUDA plug-in: AUTO, ON or OFF")
set_property(CACHE HEADRACE_CUDA PROPERTY STRINGS AUTO ON OFF)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  find_program(HEADRACE_CCACHE ccache)
  if(HEADRACE_CCACHE)
    # These settings let clones in other folders, and tests that build again, share cached objects. Paths become relative to the build
    # folder, so all build folders must have the same depth: build/dev, build/dev-shared.
    set(launcher env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1)
    set(CMAKE_C_COMPILER_LAUNCHER ${launcher} ${HEADRACE_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher} ${HEADRACE_CCACHE})
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher} ${HEADRACE_CCACHE})
  endif()
endif()

if(HEADRACE_STATIC_RUNTIME)
  # Links only the used parts of the C++ library: its unused parts require the newest glibc that it was built for, as a static
  # libgcc does. libgcc_s.so.1 is part of every system.
  add_link_options(-static-libstdc++ LINKER:--gc-sections)
endif()

find_package(Threads REQUIRED)

# Warnings and sanitizers, for this project's code only.
add_library(headrace_flags INTERFACE)
target_compile_options(headrace_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra>
  $<$<AND:$<COMPILE_LANGUAGE:CXX,C>,$<BOOL:${HEADRACE_WERROR}>>:-Werror>)
# Included in all device code, regardless of the order of headers.
target_compile_options(headrace_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-include ${PROJECT_SOURCE_DIR}/backends/dev_cuda/warp_reduce.cuh>")
if(HEADRACE_QUICK_BUILD)
  target_compile_options(headrace_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcicc -O1 -Xptxas -O1 -Xcompiler=-O0>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 at -O3 warns about impossible overlaps in std::string's operator+ (GCC bug 105651).
  target_compile_options(headrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(HEADRACE_SANITIZE)
  # The errors found by null, object-size and vptr also cause a fault or an AddressSanitizer error, and these checks instrument every
  # access or call: they double the compile time of device code for the CPU.
  string(REPLACE "undefined" "undefined -fno-sanitize=null,object-size,vptr" sanitizers "${HEADRACE_SANITIZE}")
  target_compile_options(headrace_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX,C>:SHELL:-fsanitize=${sanitizers} -fno-omit-frame-pointer -fno-sanitize-recover=all>"
    # Undefined-behaviour checks triple the compile time of tests, and use-after-scope adds a fifth: only the tested code has
    # them.
    "$<$<BOOL:$<TARGET_PROPERTY:HEADRACE_TEST_CODE>>:SHELL:-fno-sanitize=undefined -fno-sanitize-address-use-after-scope>")
  target_link_options(headrace_flags INTERFACE -fsanitize=${HEADRACE_SANITIZE})
endif()
if(HEADRACE_FUZZ)
  target_compile_options(headrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
endif()
if(HEADRACE_FAULT_POINTS)
  target_compile_definitions(headrace_flags INTERFACE HEADRACE_FAULT_POINTS)
endif()

# headrace_library(NAME header library apt-package): creates the imported target headrace_dep_NAME for a C library. The installed
# package config repeats the names that the library itself needs, so that consumers can link a static headrace.
set(HEADRACE_DEPS "" CACHE INTERNAL "")
function(headrace_library name header library package)
  if(HEADRACE_STATIC_DEPS)
    find_library(HEADRACE_${name}_SHARED ${library})
    mark_as_advanced(HEADRACE_${name}_SHARED)
    set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  endif()
  find_path(HEADRACE_${name}_INCLUDE ${header})
  find_library(HEADRACE_${name}_LIBRARY ${library})
  mark_as_advanced(HEADRACE_${name}_INCLUDE HEADRACE_${name}_LIBRARY)
  if(NOT HEADRACE_${name}_INCLUDE OR NOT HEADRACE_${name}_LIBRARY)
    message(FATAL_ERROR "headrace needs ${name} (${header}, ${library}): apt-get install ${package}")
  endif()
  add_library(headrace_dep_${name} INTERFACE)
  target_include_directories(headrace_dep_${name} SYSTEM INTERFACE
                             $<BUILD_INTERFACE:${HEADRACE_${name}_INCLUDE}>)
  set(linked ${HEADRACE_${name}_LIBRARY})
  if(HEADRACE_STATIC_DEPS AND HEADRACE_${name}_SHARED)
    # Distributions' archives are for programs: part of their code cannot go into a shared library.
    set(linked $<IF:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>,${linked},${HEADRACE_${name}_SHARED}>)
  endif()
  target_link_libraries(headrace_dep_${name} INTERFACE $<BUILD_INTERFACE:${linked}>)
  set(HEADRACE_DEPS ${HEADRACE_DEPS} ${library} CACHE INTERNAL "")
endfunction()

find_package(nlohmann_json 3.10 REQUIRED)
headrace_library(uring liburing.h uring liburing-dev)
headrace_library(aio libaio.h aio libaio-dev)
headrace_library(zstd zstd.h zstd libzstd-dev)
headrace_library(lz4 lz4.h lz4 liblz4-dev)
headrace_library(deflate libdeflate.h deflate libdeflate-dev)
headrace_library(bz2 bzlib.h bz2 libbz2-dev)
headrace_library(lzma lzma.h lzma liblzma-dev)
# Optional: few arrays need it, and no static form is packaged.
set(HEADRACE_ZFP_ENABLED OFF)
if(HEADRACE_ZFP AND NOT HEADRACE_STATIC_DEPS)
  find_path(HEADRACE_zfp_INCLUDE zfp.h)
  find_library(HEADRACE_zfp_LIBRARY zfp)
  if(HEADRACE_zfp_INCLUDE AND HEADRACE_zfp_LIBRARY)
    headrace_library(zfp zfp.h zfp libzfp-dev)
    set(HEADRACE_ZFP_ENABLED ON)
  endif()
endif()
set(HEADRACE_INSTALLED_DEPS ${HEADRACE_DEPS})
# Optional: for HTTP and S3 stores. Only the headers are needed: the library is loaded when such a store is opened.
find_path(HEADRACE_curl_INCLUDE curl/curl.h)
mark_as_advanced(HEADRACE_curl_INCLUDE)
if(HEADRACE_DEVELOPER_MODE)
  # Tests compare with c-blosc; the library decodes its containers itself.
  headrace_library(blosc blosc.h blosc libblosc-dev)
  # Tests also need streams written by zlib, which differ from libdeflate's.
  headrace_library(zlib zlib.h z zlib1g-dev)
  if(HEADRACE_STATIC_DEPS)
    # Dependencies of a static c-blosc, besides zlib.
    headrace_library(snappy snappy.h snappy libsnappy-dev)
    target_link_libraries(headrace_dep_blosc INTERFACE headrace_dep_lz4 headrace_dep_zstd headrace_dep_zlib
                          headrace_dep_snappy)
    # Repeated after it: CMake lists an archive once, and only c-blosc needs parts of this one.
    target_link_libraries(headrace_dep_blosc INTERFACE -Wl,${HEADRACE_lz4_LIBRARY})
  endif()
endif()

if(HEADRACE_DEVELOPER_MODE)
  # Searched once for all folders: each search starts an interpreter.
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  # The interpreter itself: pyenv puts a script on PATH that takes several times as long to start.
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)" OUTPUT_VARIABLE Python3_EXECUTABLE
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  # For the tests' own HTTPS server. An archive, as for the command line tool: a test that links both gets one libcrypto.
  find_path(HEADRACE_ssl_INCLUDE openssl/ssl.h)
  find_library(HEADRACE_ssl_LIBRARY NAMES libssl.a ssl)
  find_library(HEADRACE_ssl_crypto_LIBRARY NAMES libcrypto.a crypto)
  mark_as_advanced(HEADRACE_ssl_INCLUDE HEADRACE_ssl_LIBRARY HEADRACE_ssl_crypto_LIBRARY)
  if(NOT HEADRACE_ssl_INCLUDE OR NOT HEADRACE_ssl_LIBRARY OR NOT HEADRACE_ssl_crypto_LIBRARY)
    message(FATAL_ERROR "headrace's tests need OpenSSL: apt-get install libssl-dev")
  endif()
  add_library(headrace_test_tls INTERFACE)
  target_include_directories(headrace_test_tls SYSTEM INTERFACE ${HEADRACE_ssl_INCLUDE})
  target_link_libraries(headrace_test_tls INTERFACE ${HEADRACE_ssl_LIBRARY} ${HEADRACE_ssl_crypto_LIBRARY} ${CMAKE_DL_LIBS})
endif()

# Dependencies of the command line tool alone. headrace_cli_deps exists if all of them are found.
find_package(CLI11 2.1 QUIET)
find_path(HEADRACE_crypto_INCLUDE openssl/sha.h)
# Prefers the archive: it adds 25 KB to a program, which then need not load (or, in a wheel, contain) a 4.7 MB library.
find_library(HEADRACE_crypto_LIBRARY NAMES libcrypto.a crypto)
find_path(HEADRACE_xxhash_INCLUDE xxhash.h)  # header-only
mark_as_advanced(HEADRACE_crypto_INCLUDE HEADRACE_crypto_LIBRARY HEADRACE_xxhash_INCLUDE)
if(CLI11_FOUND AND HEADRACE_crypto_INCLUDE AND HEADRACE_crypto_LIBRARY AND HEADRACE_xxhash_INCLUDE)
  add_library(headrace_cli_deps INTERFACE)
  target_include_directories(headrace_cli_deps SYSTEM INTERFACE ${HEADRACE_crypto_INCLUDE} ${HEADRACE_xxhash_INCLUDE})
  target_link_libraries(headrace_cli_deps INTERFACE CLI11::CLI11 nlohmann_json::nlohmann_json headrace_dep_deflate
                        headrace_dep_lzma ${HEADRACE_crypto_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})
endif()

# CUDA is optional: without nvcc the library is complete except for the plug-in.
set(HEADRACE_CUDA_ENABLED OFF)
if(NOT HEADRACE_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      # Machine code for each existing GPU, and code that the driver compiles for future ones.
      set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90-real 100-real 120)
      execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --version OUTPUT_VARIABLE version ERROR_QUIET)
      if(version MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_LESS 12.8)
        set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
      endif()
    endif()
    enable_language(CUDA)
    # CMake 3.25 lacks nvcc's flag for C++20.
    if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    set(HEADRACE_CUDA_ENABLED ON)
  elseif(HEADRACE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "HEADRACE_CUDA is ON but no CUDA compiler was found: put nvcc on PATH or set CUDACXX")
  endif()
endif()
