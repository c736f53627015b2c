# The GStreamer element `fermatainfer` as build/libgstfermata.so: `ninja -C build gstfermata`, where
# scripts/deps.sh gstreamer has installed what it needs; `make serve` goes without. What it
# shares with the program is compiled once more, as code that can be loaded anywhere.
include_guard()
pkg_check_modules(gstreamer IMPORTED_TARGET gstreamer-video-1.0>=1.22)
# Loaded into other programs, which have no sanitizer.
if(gstreamer_FOUND AND NOT FERMATA_SANITIZE)
  file(GLOB gstreamer_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/gstreamer/*.cc)
  add_library(gstfermata MODULE ${gstreamer_sources}
    src/base/random.cc src/client/frame_encoder.cc src/client/stream.cc src/client/stream_message.cc src/client/stream_session.cc
    src/estimate/bandwidth.cc src/estimate/uplink.cc src/load/grpc_codec.cc src/load/json_tensor.cc src/model/datatype.cc
    src/model/json_data.cc src/model/signature.cc src/model/tensor_values.cc src/operators/pictures.cc)
  set_target_properties(gstfermata PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  target_include_directories(gstfermata PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_options(gstfermata PRIVATE -Wl,--no-undefined)
  target_link_libraries(gstfermata PRIVATE fermata_proto fermata_flags PkgConfig::gstreamer
    absl::status absl::statusor absl::strings fmt::fmt simdjson::simdjson opencv PkgConfig::turbojpeg PNG::PNG)
endif()
