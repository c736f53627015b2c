# fermata_room(NAME DEPENDS ...): the folder src/NAME as the library
# fermata_NAME. Every .cc in it, and in the folders in it, belongs to it.
include_guard()

add_library(fermata_flags INTERFACE)
target_compile_definitions(fermata_flags INTERFACE FERMATA_VERSION="${PROJECT_VERSION}")
target_compile_options(fermata_flags INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers
                                               -fno-omit-frame-pointer)
# To gcc what a unity build compiles looks like headers, where an unnamed namespace is a mistake.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(fermata_flags INTERFACE -Wno-subobject-linkage)
endif()
if(FERMATA_SANITIZE)
  target_compile_options(fermata_flags INTERFACE -fsanitize=${FERMATA_SANITIZE}
                                                 -fno-sanitize-recover=all)
  target_link_options(fermata_flags INTERFACE -fsanitize=${FERMATA_SANITIZE})
endif()

function(fermata_room NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${NAME}/*.cc)
  if(sources)
    add_library(fermata_${NAME} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(fermata_${NAME} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(fermata_${NAME} ${scope} ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(fermata_${NAME} ${scope} ${ARG_DEPENDS} fermata_flags)
endfunction()

# fermata_test(NAME ...): tests/NAME/*_test.cc as the GoogleTest binary test_NAME.
function(fermata_test NAME)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${NAME}/*.cc)
  if(sources)
    add_executable(test_${NAME} ${sources})
    target_link_libraries(test_${NAME} PRIVATE ${ARG_DEPENDS} GTest::gmock GTest::gtest_main)
    target_include_directories(test_${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_compile_options(test_${NAME} PRIVATE -O1)  # the tests' own code: compiles in two thirds of the time
    if(FERMATA_SANITIZE STREQUAL "thread")
      target_sources(test_${NAME} PRIVATE ${CMAKE_SOURCE_DIR}/tests/thread_sanitizer/grpc_locks.cc)
      target_link_libraries(test_${NAME} PRIVATE ${CMAKE_DL_LIBS})
    endif()
    add_test(NAME ${NAME} COMMAND test_${NAME})
    set_tests_properties(${NAME} PROPERTIES TIMEOUT 900)
  endif()
endfunction()
