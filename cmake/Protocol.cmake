# proto/*.proto as the library fermata_proto, with gRPC services.
include_guard()
file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/proto/*.proto)
add_library(fermata_proto STATIC ${protos})
# What protoc writes for one file and for another has the same names. The GStreamer element has it too.
set_target_properties(fermata_proto PROPERTIES UNITY_BUILD OFF POSITION_INDEPENDENT_CODE ON)
set(generated ${CMAKE_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${generated})
target_link_libraries(fermata_proto PUBLIC protobuf::libprotobuf gRPC::grpc++)
target_include_directories(fermata_proto SYSTEM PUBLIC ${generated})
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
foreach(proto ${protos})
  get_filename_component(stem ${proto} NAME_WE)
  set(outputs)
  foreach(suffix pb.h pb.cc grpc.pb.h grpc.pb.cc)
    list(APPEND outputs ${generated}/${stem}.${suffix})
  endforeach()
  add_custom_command(
    OUTPUT ${outputs}
    COMMAND protobuf::protoc --proto_path=${CMAKE_SOURCE_DIR}/proto --cpp_out=${generated}
            --grpc_out=${generated} --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN} ${proto}
    DEPENDS ${protos}
    COMMENT "protoc ${stem}.proto")
  target_sources(fermata_proto PRIVATE ${outputs})
endforeach()
