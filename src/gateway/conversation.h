#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "ext_proc.pb.h"
#include "pick/picker.h"

namespace fermata::gateway {

using ProcessingRequest = envoy::service::ext_proc::v3::ProcessingRequest;
using ProcessingResponse = envoy::service::ext_proc::v3::ProcessingResponse;

// What all conversations share. It outlives them.
struct House {
  Duration slo;                                // of requests that name none
  std::map<std::string, Duration> objectives;  // by name
  std::mutex mutex;
  pick::Picker picker;  // under it
};

// What a gateway says of one request, and what it is answered (Envoy's ext_proc v3, endpoint picker
// protocol): where the request goes, or that it is shed. One thread at a time.
class Conversation {
 public:
  explicit Conversation(House& house) : house_(house) {}
  // Tells the picker that nobody waits, if no answer has come.
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  // Each message has one answer; none: nobody waits for it.
  std::optional<ProcessingResponse> answer(const ProcessingRequest& message, Time now);

 private:
  ProcessingResponse pick(const ProcessingRequest& message, Time now);
  void ended(const ProcessingRequest& message, Time now);

  House& house_;
  uint64_t ticket_ = 0;  // of a request that was sent and is not answered; 0: none
  bool request_goes_back_ = false, response_goes_back_ = false;  // bodies, to go on
};

// What `grpc-timeout` says; none: it is no such text.
std::optional<Duration> grpc_timeout(std::string_view text);

}  // namespace fermata::gateway
