# What `cmake --install` places: library, headers, package config, command line tool, plug-ins.
include(CMakePackageConfigHelpers)

install(TARGETS headrace
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/headrace DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET headrace_cli)
  file(RELATIVE_PATH headrace_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(headrace_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${headrace_bin_to_lib}")
  install(TARGETS headrace_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Not where the loader finds it by itself: it has the name of another library.
install(TARGETS headrace_cufile LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/headrace/cufile)
install(FILES ${PROJECT_SOURCE_DIR}/include/cufile/cufile.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/cufile)
install(FILES ${PROJECT_SOURCE_DIR}/src/cufile/cufile.json DESTINATION ${CMAKE_INSTALL_DATADIR}/headrace)

# Plug-ins are loaded at run time from here; a part that builds one appends its target to this property.
get_property(headrace_plugins GLOBAL PROPERTY HEADRACE_PLUGIN_TARGETS)
foreach(plugin IN LISTS headrace_plugins)
  install(TARGETS ${plugin}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/headrace NAMELINK_SKIP
    RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/headrace)
endforeach()

# The config is written by hand rather than exported: an export would carry every internal target along.
get_target_property(headrace_library_type headrace TYPE)
if(headrace_library_type STREQUAL "SHARED_LIBRARY")
  set(HEADRACE_CONFIG_TYPE SHARED)
  set(HEADRACE_CONFIG_FILE ${CMAKE_SHARED_LIBRARY_PREFIX}headrace${CMAKE_SHARED_LIBRARY_SUFFIX})
  set(HEADRACE_CONFIG_DEPS "")
else()
  set(HEADRACE_CONFIG_TYPE STATIC)
  set(HEADRACE_CONFIG_FILE ${CMAKE_STATIC_LIBRARY_PREFIX}headrace${CMAKE_STATIC_LIBRARY_SUFFIX})
  set(HEADRACE_CONFIG_DEPS ${HEADRACE_DEPS})
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
