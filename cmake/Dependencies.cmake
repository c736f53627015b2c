# Every library comes from the system's packages, except ONNX Runtime where the
# system has none: scripts/deps.sh then unpacks it into .deps/onnxruntime.
include_guard()
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(prometheus-cpp REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(GTest REQUIRED)

function(fermata_header_only TARGET HEADER)
  find_path(${TARGET}_DIR NAMES ${HEADER} PATH_SUFFIXES opencv4 concurrentqueue concurrentqueue/moodycamel REQUIRED)
  add_library(${TARGET} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${TARGET} SYSTEM INTERFACE ${${TARGET}_DIR})
endfunction()

fermata_header_only(CLI11::CLI11 CLI/CLI.hpp)
fermata_header_only(hnswlib::hnswlib hnswlib/hnswlib.h)
fermata_header_only(moodycamel::concurrentqueue concurrentqueue.h)
fermata_header_only(boost::beast boost/beast.hpp)

# Model repositories in stores.
find_package(CURL REQUIRED)
find_package(pugixml REQUIRED)

# Pictures: decoding, and what is computed on them.
find_package(PNG REQUIRED)
pkg_check_modules(turbojpeg REQUIRED IMPORTED_TARGET libturbojpeg)
fermata_header_only(opencv opencv2/imgproc.hpp)
foreach(module core imgproc)
  find_library(opencv_${module}_LIBRARY opencv_${module} REQUIRED)
  target_link_libraries(opencv INTERFACE ${opencv_${module}_LIBRARY})
endforeach()

# Films, cameras and addresses as sources of `fermata stream`, where FFmpeg's libraries are there.
pkg_check_modules(video IMPORTED_TARGET libavformat libavcodec libavdevice libavutil libswscale)

# ONNX Runtime's library; src/engine/onnx/onnx_c_api.h declares what we call.
find_library(ONNXRUNTIME_LIBRARY NAMES onnxruntime libonnxruntime.so.1
             HINTS ${CMAKE_SOURCE_DIR}/.deps/onnxruntime/lib)
if(NOT ONNXRUNTIME_LIBRARY)
  message(FATAL_ERROR "ONNX Runtime is missing: run scripts/deps.sh, or install libonnxruntime-dev")
endif()
add_library(onnxruntime::onnxruntime SHARED IMPORTED GLOBAL)
set_target_properties(onnxruntime::onnxruntime PROPERTIES IMPORTED_LOCATION ${ONNXRUNTIME_LIBRARY})
