# What `cmake --install` puts in place besides the programs, which their own folders install.
include(CMakePackageConfigHelpers)

set_target_properties(rueda_cpp PROPERTIES EXPORT_NAME cpp)
install(TARGETS rueda rueda_cpp EXPORT RuedaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES bindings/c/rueda.h bindings/cpp/rueda.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY bindings/cpp/rueda DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
configure_file(bindings/python/rueda/timeline_summary.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/rueda-timeline COPYONLY)
install(PROGRAMS bindings/python/rueda/timeline_summary.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME rueda-timeline)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# find_package(Rueda): Rueda::rueda (C) and Rueda::cpp (C++).
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/Rueda)
install(EXPORT RuedaTargets NAMESPACE Rueda:: DESTINATION ${package_folder})
configure_package_config_file(cmake/RuedaConfig.cmake.in ${CMAKE_BINARY_DIR}/package/RuedaConfig.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/RuedaConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/RuedaConfig.cmake ${CMAKE_BINARY_DIR}/package/RuedaConfigVersion.cmake
  DESTINATION ${package_folder})

# pkg-config rueda. `cmake --install --prefix` may move the tree, so its paths follow from where the file lies.
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/rueda.pc.in package/rueda.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/rueda.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
