#include "serve/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>

#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/grpc/grpc_listener.h"
#include "serve/grpc/grpc_message.h"

namespace fermata::serve {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

constexpr size_t kLongestQuestion = 4 * 1024;
// Of what is asked for. For a symbol that it has not the pool hashes every part of the name that
// ends before a dot, with all other calls to it waiting.
constexpr size_t kLongestName = 256;

void add_with_imports(const FileDescriptor& file, absl::flat_hash_set<const FileDescriptor*>& added,
                      grpc::reflection::v1alpha::FileDescriptorResponse& files) {
  if (!added.insert(&file).second) return;
  google::protobuf::FileDescriptorProto text;
  file.CopyTo(&text);
  files.add_file_descriptor_proto(text.SerializeAsString());
  for (int i = 0; i < file.dependency_count(); ++i) {
    add_with_imports(*file.dependency(i), added, files);
  }
}

void answer_file(const FileDescriptor* file, const std::string& asked,
                 ServerReflectionResponse& to) {
  if (file == nullptr) {
    to.mutable_error_response()->set_error_code(grpc::StatusCode::NOT_FOUND);
    to.mutable_error_response()->set_error_message(fmt::format("{} is not known", asked));
    return;
  }
  absl::flat_hash_set<const FileDescriptor*> added;
  add_with_imports(*file, added, *to.mutable_file_descriptor_response());
}

const std::string& name_in(const ServerReflectionRequest& question) {
  switch (question.message_request_case()) {
    case ServerReflectionRequest::kFileByFilename:
      return question.file_by_filename();
    case ServerReflectionRequest::kFileContainingSymbol:
      return question.file_containing_symbol();
    case ServerReflectionRequest::kFileContainingExtension:
      return question.file_containing_extension().containing_type();
    default:
      return question.all_extension_numbers_of_type();  // empty where another thing is asked
  }
}

ServerReflectionResponse answer_of(const ServerReflectionRequest& question) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  ServerReflectionResponse response;
  response.set_valid_host(question.host());
  *response.mutable_original_request() = question;
  const std::string& name = name_in(question);
  if (name.size() > kLongestName) {
    answer_file(nullptr,
                fmt::format("a name of {} bytes, expected at most {},", name.size(), kLongestName),
                response);
    return response;
  }
  switch (question.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* service : {Protocol::service_full_name(), Reflection::service_full_name()}) {
        response.mutable_list_services_response()->add_service()->set_name(service);
      }
      break;
    case ServerReflectionRequest::kFileByFilename:
      answer_file(pool.FindFileByName(name), name, response);
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      answer_file(pool.FindFileContainingSymbol(name), name, response);
      break;
    case ServerReflectionRequest::kFileContainingExtension:  // our messages have none
      answer_file(nullptr, name, response);
      break;
    case ServerReflectionRequest::kAllExtensionNumbersOfType:
      if (pool.FindMessageTypeByName(name) == nullptr) {
        answer_file(nullptr, name, response);
      } else {
        response.mutable_all_extension_numbers_response()->set_base_type_name(name);
      }
      break;
    default:
      response.mutable_error_response()->set_error_code(grpc::StatusCode::INVALID_ARGUMENT);
      response.mutable_error_response()->set_error_message("the message asks nothing");
  }
  return response;
}

// One stream; a question is read when the answer to the one before is written.
class Reflect final : public InferStream {
 public:
  Reflect(const GrpcHouse& house, const grpc::CallbackServerContext& context)
      : budget_(house.listener.budget_of(context.peer())) {
    StartRead(&question_);
  }
  void OnReadDone(bool ok) override {
    const absl::Status bad = ok ? answer() : absl::OkStatus();
    if (!ok || !bad.ok()) return Finish(grpc_status(bad));
    StartWrite(&answer_);
  }
  void OnWriteDone(bool ok) override {
    held_ = HeldBytes();
    if (!ok) return Finish(grpc::Status::OK);
    StartRead(&question_);
  }
  void OnDone() override { delete this; }

 private:
  absl::Status answer() {
    held_ = HeldBytes(budget_);
    ServerReflectionRequest question;
    RETURN_IF_ERROR(read_message(question_, kLongestQuestion, held_, question));
    return write_message(answer_of(question), held_, answer_);
  }

  const std::shared_ptr<ByteBudget> budget_;
  HeldBytes held_;  // the question and its answer, until this is written
  grpc::ByteBuffer question_, answer_;
};

}  // namespace

InferStream* ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* context) {
  return new Reflect(house_, *context);
}

}  // namespace fermata::serve
