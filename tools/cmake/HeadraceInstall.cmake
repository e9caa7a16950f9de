# Rules for `cmake --install`: library, headers, package config, command line tool, plug-ins.
include(CMakePackageConfigHelpers)

install(TARGETS headrace
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/headrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# Programs and libraries look for the files that they load in their own folder and below, never above. These files lie in
# lib/headrace, and links point there, so the tree can be moved as a whole.
set(headrace_private_dir ${CMAKE_INSTALL_LIBDIR}/headrace)
set(headrace_links ${PROJECT_BINARY_DIR}/generated/links)
file(MAKE_DIRECTORY ${headrace_links}/bin ${headrace_links}/cufile)
if(TARGET headrace_cli)
  if(BUILD_SHARED_LIBS)
    # Only if it is needed: CMake pads the RPATH in the build tree with colons, which mean the working directory.
    set_target_properties(headrace_cli PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  endif()
  install(TARGETS headrace_cli RUNTIME DESTINATION ${headrace_private_dir})
  file(RELATIVE_PATH headrace_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(CREATE_LINK ${headrace_bin_to_lib}/headrace/headrace ${headrace_links}/bin/headrace SYMBOLIC)
  install(FILES ${headrace_links}/bin/headrace DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# In a folder that the loader does not search, because it has the name of another library.
install(TARGETS headrace_cufile LIBRARY DESTINATION ${headrace_private_dir}/cufile)
install(FILES ${PROJECT_SOURCE_DIR}/include/cufile/cufile.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cufile)
install(FILES ${PROJECT_SOURCE_DIR}/src/cufile/cufile.json DESTINATION ${headrace_private_dir}/cufile)
file(CREATE_LINK ../libheadrace_cuda.so ${headrace_links}/cufile/libheadrace_cuda.so SYMBOLIC)
install(FILES ${headrace_links}/cufile/libheadrace_cuda.so DESTINATION ${headrace_private_dir}/cufile)

# Plug-ins are loaded from here at run time. A part that builds one appends its target to this property.
get_property(headrace_plugins GLOBAL PROPERTY HEADRACE_PLUGIN_TARGETS)
foreach(plugin IN LISTS headrace_plugins)
  install(TARGETS ${plugin}
    LIBRARY DESTINATION ${headrace_private_dir} NAMELINK_SKIP
    RUNTIME DESTINATION ${headrace_private_dir})
endforeach()

# The config is written by hand, because an export would include all internal targets.
get_target_property(headrace_library_type headrace TYPE)
if(headrace_library_type STREQUAL "SHARED_LIBRARY")
  set(HEADRACE_CONFIG_TYPE SHARED)
  set(HEADRACE_CONFIG_FILE ${CMAKE_SHARED_LIBRARY_PREFIX}headrace${CMAKE_SHARED_LIBRARY_SUFFIX})
  set(HEADRACE_CONFIG_DEPS "")
else()
  set(HEADRACE_CONFIG_TYPE STATIC)
  set(HEADRACE_CONFIG_FILE ${CMAKE_STATIC_LIBRARY_PREFIX}headrace${CMAKE_STATIC_LIBRARY_SUFFIX})
  set(HEADRACE_CONFIG_DEPS ${HEADRACE_INSTALLED_DEPS})
endif()
# Libraries that a C compiler must link if headrace is static.
set(HEADRACE_CONFIG_CXX_RUNTIME stdc++)
if("c++" IN_LIST CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  set(HEADRACE_CONFIG_CXX_RUNTIME c++)
endif()
set(headrace_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/headrace)
set(HEADRACE_CONFIG_LIBDIR ${CMAKE_INSTALL_LIBDIR})
set(HEADRACE_CONFIG_INCLUDEDIR ${CMAKE_INSTALL_INCLUDEDIR})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/headrace-config.cmake.in
  ${PROJECT_BINARY_DIR}/generated/headrace-config.cmake
  INSTALL_DESTINATION ${headrace_config_dir}
  PATH_VARS HEADRACE_CONFIG_LIBDIR HEADRACE_CONFIG_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/headrace-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/headrace-config.cmake
              ${PROJECT_BINARY_DIR}/generated/headrace-config-version.cmake
        DESTINATION ${headrace_config_dir})

# pkg-config. There is no separate file for a static library: its requirements are given with and without --static.
file(RELATIVE_PATH HEADRACE_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(HEADRACE_PC_LIBS -lheadrace)
if(HEADRACE_CONFIG_TYPE STREQUAL "STATIC")
  foreach(library IN LISTS HEADRACE_CONFIG_DEPS)
    if(HEADRACE_STATIC_DEPS)
      list(APPEND HEADRACE_PC_LIBS -l:lib${library}.a)
    else()
      list(APPEND HEADRACE_PC_LIBS -l${library})
    endif()
  endforeach()
  list(APPEND HEADRACE_PC_LIBS -l${HEADRACE_CONFIG_CXX_RUNTIME} -lm -lpthread -ldl)
endif()
list(JOIN HEADRACE_PC_LIBS " " HEADRACE_PC_LIBS)
configure_file(${CMAKE_CURRENT_LIST_DIR}/headrace.pc.in ${PROJECT_BINARY_DIR}/generated/headrace.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/headrace.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
