# The build follows src/ORDER: rooms above the first dashed line go into libplumb, those
# between the lines into libplumbrun, the rest into plumblab; cli is the program.

macro(plumb_add_rooms order)
  file(STRINGS ${order} lines)
  set(PLUMB_TARGET plumb)
  foreach(line IN LISTS lines)
    if(line MATCHES "^---- libplumb:")
      set(PLUMB_TARGET plumbrun)
    elseif(line MATCHES "^---- libplumbrun:")
      set(PLUMB_TARGET plumblab)
    elseif(EXISTS ${PROJECT_SOURCE_DIR}/src/${line}/CMakeLists.txt)
      add_subdirectory(src/${line})
    endif()
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${order})
endmacro()

# plumb_kernel_flags(file) - instruction-set flags by suffix.
function(plumb_kernel_flags file)
  if(file MATCHES "_(avx2|avx512|avx512bf16|amx)\\.c$")
    set_property(SOURCE ${file} TARGET_DIRECTORY ${PLUMB_TARGET}
      APPEND PROPERTY COMPILE_OPTIONS ${PLUMB_FLAGS_${CMAKE_MATCH_1}})
  endif()
endfunction()

# plumb_room(file...) - the files of this room, in reading order.
function(plumb_room)
  foreach(file IN LISTS ARGN)
    target_sources(${PLUMB_TARGET} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    plumb_kernel_flags(${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
endfunction()

# plumb_timeout(variable) - 120 s unless given; five times as long where sanitizers slow down.
function(plumb_timeout variable)
  if(NOT ${variable})
    set(${variable} 120)
  endif()
  if(PLUMB_SANITIZE)
    math(EXPR ${variable} "5 * ${${variable}}")
  endif()
  set(${variable} ${${variable}} PARENT_SCOPE)
endfunction()

# plumb_test(name LABEL quick|exhaustive [TIMEOUT s] SOURCES file... [LINK target...])
#
# Adds <room>.<name>.  A test exits 0, or 77 when it is skipped.
function(plumb_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT" "SOURCES;LINK;ARGS" ${ARGN})
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  plumb_timeout(T_TIMEOUT)
  add_executable(test_${room}_${name} ${T_SOURCES})
  target_include_directories(test_${room}_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(test_${room}_${name} PRIVATE plumblab ${T_LINK})
  add_test(NAME ${room}.${name} COMMAND test_${room}_${name} ${T_ARGS})
  set_tests_properties(${room}.${name} PROPERTIES LABELS ${T_LABEL} SKIP_RETURN_CODE 77
    TIMEOUT ${T_TIMEOUT} ENVIRONMENT "PLUMB_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endfunction()

# plumb_script_test(name LABEL l [TIMEOUT s] COMMAND ...) - the same for a script.  It finds
# the program as $PLUMB and the source tree as $PLUMB_SOURCE_DIR.
function(plumb_script_test name)
  cmake_parse_arguments(T "" "LABEL;TIMEOUT" "COMMAND" ${ARGN})
  get_filename_component(room ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  plumb_timeout(T_TIMEOUT)
  add_test(NAME ${room}.${name} COMMAND ${T_COMMAND})
  set_tests_properties(${room}.${name} PROPERTIES LABELS ${T_LABEL} SKIP_RETURN_CODE 77
    TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "PLUMB=${PROJECT_BINARY_DIR}/plumb;PLUMB_SOURCE_DIR=${PROJECT_SOURCE_DIR}")
endfunction()

# plumb_embed(name file) - an ASCII file of this room as `const char name[]`.
function(plumb_embed name file)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} hex HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  file(CONFIGURE OUTPUT ${source} @ONLY
    CONTENT "extern const char ${name}[];\nconst char ${name}[] = {${bytes}0};\n")
  target_sources(${PLUMB_TARGET} PRIVATE ${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${CMAKE_CURRENT_SOURCE_DIR}/${file})
endfunction()
