# Text files that the program carries, as a source of a room: fermata_carry(TARGET NAME HEADER
# FUNCTION TYPE FILES...) makes FUNCTION, which HEADER declares, the list of TYPE {name, text}.
include_guard()

function(fermata_carry TARGET NAME HEADER SPACE FUNCTION TYPE)
  set(text "#include \"${HEADER}\"\n\nnamespace ${SPACE} {\n\n")
  string(APPEND text "std::span<const ${TYPE}> ${FUNCTION}() {\n  static constexpr ${TYPE} kFiles[] = {\n")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  foreach(file ${ARGN})
    get_filename_component(name ${file} NAME)
    file(READ ${file} content)
    string(APPEND text "      {\"${name}\", R\"fermata(${content})fermata\"},\n")
  endforeach()
  string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace ${SPACE}\n")
  set(source ${CMAKE_BINARY_DIR}/${NAME}/${NAME}.cc)
  set(before "")
  if(EXISTS ${source})
    file(READ ${source} before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${source} "${text}")
  endif()
  target_sources(${TARGET} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# The pages of web/: HTML, CSS, and what scripts/web.sh made from web/*.ts
# (tests/python/test_pages.py checks that it still is).
function(fermata_pages TARGET)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*.html ${CMAKE_SOURCE_DIR}/web/*.css
                                    ${CMAKE_SOURCE_DIR}/web/built/*.js
                                    ${CMAKE_SOURCE_DIR}/web/built/*.css)
  fermata_carry(${TARGET} pages serve/http/http_pages.h fermata::serve pages Page ${files})
endfunction()

# What Python models run in.
function(fermata_python TARGET)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/python/fermata_backend/*.py)
  fermata_carry(${TARGET} python_files engine/execute/python_backend.h fermata::engine python_files
                PythonFile ${files})
endfunction()
