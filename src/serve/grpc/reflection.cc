#include "serve/grpc/reflection.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "serve/call/status_map.h"
#include "serve/grpc/grpc_connections.h"
#include "serve/grpc/grpc_message.h"
#include "serve/grpc/health.h"
#include "serve/grpc/open_streams.h"
#include "serve/grpc/scaler.h"

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
      for (const char* service : {Protocol::service_full_name(), Health::service_full_name(),
                                  Reflection::service_full_name(), Scaler::service_full_name()}) {
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
class Reflect final : public InferStream,
                      public OpenStreams::Stream,
                      public std::enable_shared_from_this<Reflect> {
 public:
  Reflect(GrpcHouse& house, grpc::CallbackServerContext& context)
      : house_(house), share_(house.share_of(context)) {
    house_.under_way.fetch_add(1);
  }
  void start() {
    self_ = shared_from_this();
    const absl::Status room = house_.hold_stream(share_->of_its_streams, open_);
    if (room.ok()) house_.streams.add(self_);  // the next one may end it from here on
    const std::scoped_lock lock(mutex_);
    if (!room.ok()) return finish(room);
    if (!finished_) StartRead(&question_);
  }

  bool give_way(const absl::Status& why) override {
    const std::scoped_lock lock(mutex_);
    if (answering_ || finished_) return false;
    open_ = {};
    finish(why);
    return true;
  }
  std::optional<OpenStreams::Moment> idle_since() override {
    const std::scoped_lock lock(mutex_);
    return answering_ || finished_ ? std::nullopt : std::optional(last_);
  }
  const ByteBudget* share() const override { return share_->of_its_streams.get(); }

  // A question that is being answered is answered.
  void drain() override {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    if (!answering_) stop();
  }
  void OnReadDone(bool ok) override {
    house_.streams.used(this);
    const std::scoped_lock lock(mutex_);
    if (finished_) return;
    const absl::Status bad = ok ? answer() : absl::OkStatus();
    if (!ok || !bad.ok()) return finish(bad);
    answering_ = true;
    StartWrite(&answer_);
  }
  void OnWriteDone(bool ok) override {
    const std::scoped_lock lock(mutex_);
    answering_ = false;
    last_ = std::chrono::steady_clock::now();
    held_ = HeldBytes();
    if (!ok) return finish(absl::OkStatus());
    if (draining_) return stop();
    StartRead(&question_);
  }
  void OnCancel() override {
    const std::scoped_lock lock(mutex_);
    if (!answering_) finish(absl::OkStatus());  // nobody reads it
  }
  void OnDone() override {
    house_.streams.remove(this);
    house_.under_way.fetch_sub(1);
    self_.reset();
  }

 private:
  absl::Status answer() {
    held_ = HeldBytes(share_->budget);
    ServerReflectionRequest question;
    RETURN_IF_ERROR(read_message(question_, kLongestQuestion, held_, question));
    return write_message(answer_of(question), held_, answer_);
  }
  void stop() { finish(error(absl::StatusCode::kUnavailable, "the server stops")); }
  void finish(const absl::Status& status) {
    if (!std::exchange(finished_, true)) Finish(grpc_status(status));
  }

  GrpcHouse& house_;
  const GrpcHouse::SharePtr share_;
  std::shared_ptr<Reflect> self_;
  std::mutex mutex_;
  HeldBytes open_;  // that it is there
  HeldBytes held_;  // the question and its answer, until this is written
  grpc::ByteBuffer question_, answer_;
  bool answering_ = false, draining_ = false, finished_ = false;
  OpenStreams::Moment last_ = std::chrono::steady_clock::now();  // when it became idle
};

}  // namespace

InferStream* ReflectionService::ServerReflectionInfo(grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<Reflect>(house_, *context);
  stream->start();
  return stream.get();
}

}  // namespace fermata::serve
