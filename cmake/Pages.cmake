# The pages of web/ as a source of the room `serve`: HTML, CSS, and what scripts/web.sh made
# from web/*.ts (scripts/web.sh; tests/python/test_pages.py checks that it still is).
include_guard()

function(fermata_pages TARGET)
  set(text "#include \"serve/http/http_pages.h\"\n\nnamespace fermata::serve {\n\n")
  string(APPEND text "std::span<const Page> pages() {\n  static constexpr Page kPages[] = {\n")
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/web/*.html ${CMAKE_SOURCE_DIR}/web/*.css
                                    ${CMAKE_SOURCE_DIR}/web/built/*.js
                                    ${CMAKE_SOURCE_DIR}/web/built/*.css)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    file(READ ${file} content)
    string(APPEND text "      {\"${name}\", R\"fermata(${content})fermata\"},\n")
  endforeach()
  string(APPEND text "  };\n  return kPages;\n}\n\n}  // namespace fermata::serve\n")
  set(before "")
  if(EXISTS ${CMAKE_BINARY_DIR}/pages/pages.cc)
    file(READ ${CMAKE_BINARY_DIR}/pages/pages.cc before)
  endif()
  if(NOT before STREQUAL text)
    file(WRITE ${CMAKE_BINARY_DIR}/pages/pages.cc "${text}")
  endif()
  target_sources(${TARGET} PRIVATE ${CMAKE_BINARY_DIR}/pages/pages.cc)
endfunction()
