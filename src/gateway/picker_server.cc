#include "gateway/picker_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "ext_proc.grpc.pb.h"
#include "gateway/addresses.h"
#include "gateway/conversation.h"

namespace fermata::gateway {
namespace {

using Service = envoy::service::ext_proc::v3::ExternalProcessor;

constexpr int kLongestMessage = 64 << 20;  // a whole body, where the gateway sends bodies
constexpr std::chrono::seconds kFarewell(1);
constexpr int kHandshakeLimitMs = 10'000;  // from a connection to the gateway's first settings
constexpr size_t kMostHeld = 512 << 20;    // of what gRPC holds of messages

// One request's stream: reads, answers, reads again.
class Stream final : public grpc::ServerBidiReactor<ProcessingRequest, ProcessingResponse> {
 public:
  explicit Stream(House& house) : conversation_(house) { StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    if (auto answer = conversation_.answer(message_, monotonic_now())) {
      answer_ = *std::move(answer);
      StartWrite(&answer_);
    } else {
      read_on();
    }
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    answer_ = {};
    read_on();
  }
  void OnDone() override { delete this; }

 private:
  // A request may go on for long: meanwhile nothing is held of its bodies.
  void read_on() {
    message_ = {};
    StartRead(&message_);
  }

  Conversation conversation_;
  ProcessingRequest message_;
  ProcessingResponse answer_;
};

class PickerService final : public Service::CallbackService {
 public:
  explicit PickerService(House& house) : house_(house) {}
  grpc::ServerBidiReactor<ProcessingRequest, ProcessingResponse>* Process(
      grpc::CallbackServerContext*) override {
    return new Stream(house_);
  }

 private:
  House& house_;
};

absl::StatusOr<std::string> text_of(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return invalid("{}: it cannot be read", file);
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials(const PickerOptions& options) {
  if (options.certificate.empty()) return grpc::InsecureServerCredentials();
  ASSIGN_OR_RETURN(std::string certificate, text_of(options.certificate));
  ASSIGN_OR_RETURN(std::string key, text_of(options.key));
  grpc::SslServerCredentialsOptions ssl;
  ssl.pem_key_cert_pairs.push_back({std::move(key), std::move(certificate)});
  return grpc::SslServerCredentials(ssl);
}

}  // namespace

struct PickerServer::Parts {
  House house;
  PickerService service{house};
  std::unique_ptr<Addresses> addresses;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<PickerServer>> PickerServer::start(const PickerOptions& options) {
  auto parts = std::make_unique<Parts>();
  parts->house.slo = options.slo;
  parts->house.objectives = options.objectives;
  for (const std::string& name : options.servers) {
    const absl::Status known = addresses_of(name).status();
    if (absl::IsInvalidArgument(known)) return known;
  }
  ASSIGN_OR_RETURN(const auto secret, credentials(options));
  parts->addresses = std::make_unique<Addresses>(
      options.servers, [&house = parts->house](const std::vector<std::string>& servers) {
        const std::scoped_lock lock(house.mutex);
        house.picker.set_servers(servers);
      });
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options.listen, secret, &parts->port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeLimitMs);
  builder.SetMaxReceiveMessageSize(kLongestMessage);
  grpc::ResourceQuota quota;
  quota.Resize(kMostHeld);
  builder.SetResourceQuota(quota);
  builder.RegisterService(&parts->service);
  parts->server = builder.BuildAndStart();
  if (parts->server == nullptr || parts->port == 0) {
    return error(absl::StatusCode::kUnavailable, "cannot listen on {}", options.listen);
  }
  parts->server->GetHealthCheckService()->SetServingStatus(Service::service_full_name(), true);
  return std::unique_ptr<PickerServer>(new PickerServer(std::move(parts)));
}

PickerServer::PickerServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

PickerServer::~PickerServer() {
  parts_->server->Shutdown(std::chrono::system_clock::now() + kFarewell);
  parts_->server->Wait();
}

uint16_t PickerServer::port() const { return static_cast<uint16_t>(parts_->port); }

}  // namespace fermata::gateway
