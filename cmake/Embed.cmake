# plumb_embed(name file...) - the bytes of the files, one after the other, as a C array.
#
# Writes <binary dir>/embedded/<name>.h with `static const unsigned char <name>[]`, a 0 behind
# them, at configure time; a change of a file configures anew.
function(plumb_embed name)
  set(bytes "")
  foreach(file IN LISTS ARGN)
    file(READ ${file} part HEX)
    string(APPEND bytes "${part}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  endforeach()
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/embedded/${name}.h @ONLY CONTENT
    "/* Generated from text files by cmake/Embed.cmake. */
static const unsigned char @name@[] = {
@bytes@0};
")
endfunction()
