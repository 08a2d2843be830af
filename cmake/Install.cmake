# cmake --install: the program, the three libraries, headers, pkg-config files, scenarios,
# manual pages and completions.
include(GNUInstallDirs)
install(TARGETS plumb plumbrun plumblab ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET plumb_program)
  install(TARGETS plumb_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/plumb DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
# `plumb demo` looks for them beside the program, in ../share/plumb/demo.
install(DIRECTORY examples/demo/ DESTINATION ${CMAKE_INSTALL_DATADIR}/plumb/demo)

set(PLUMB_PC_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH PLUMB_PREFIX_FROM_PC /prefix/${PLUMB_PC_DIR} /prefix)
foreach(name plumb plumblab)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${PLUMB_PC_DIR})
endforeach()

# Where each shell looks by itself.
install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES src/cli/shell/plumb.bash RENAME plumb
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES src/cli/shell/plumb.zsh RENAME _plumb
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES src/cli/shell/plumb.fish
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
