#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cluster.pb.h"
#include "cluster/frontend/held_requests.h"
#include "cluster/wire/offered.h"
#include "engine/services/stream_face.h"
#include "engine/threads/published.h"

namespace fermata::cluster {

// The stream services of a frontend. Their clients, plans and sizes are their scheduler's, which
// is told what a client says and answers which variant is to run the frame, by when, and what the
// client hears; the frame itself waits here meanwhile, and is then a call of that variant as any
// other is. Thread-safe.
class FrontendStreams {
 public:
  struct Host {
    // Keeps it until its scheduler has answered; its frame is what that is told.
    std::function<void(JobId, HeldRequests::Request)> hold;
    std::function<void(JobId, engine::InferRequest, engine::Reply)> submit;  // a variant's call
    std::function<void(JobId)> cancel;
    std::function<void(uint32_t division, absl::FunctionRef<size_t(Asked&)> add)> say;
  };
  FrontendStreams(std::vector<engine::ServiceOptions> services, HeldRequests& requests, Host host)
      : services_(std::move(services)), requests_(requests), host_(std::move(host)) {}

  bool any() const { return !services_.empty(); }
  // What clients see of them, where these are the models and services that there are and
  // `offers` are the divisions' schedulers'. One that was served before needs its scheduler alone.
  std::vector<std::shared_ptr<const engine::Service>> serve(
      const engine::Catalog& catalog, const std::vector<const Offer*>& offers);

  // A call of a stream service becomes one of a variant's where its client is none of a stream;
  // others stay as they are. False: its scheduler is asked, or it has been answered.
  bool route(JobId id, engine::InferRequest& request, engine::Reply& reply);
  // What its scheduler says of one, which HeldRequests has unless it has ended.
  void directed(const Directed& said);
  void close(uint64_t owner);  // a connection ended
  // Tells schedulers how long operators of variants take here, as `of` says, once a second, and
  // that connections have ended which have been silent for a minute. One thread's.
  void tell_operators(Time now, absl::FunctionRef<Duration(const std::string& variant)> of);

 private:
  struct Served {
    std::shared_ptr<const engine::StreamFace> face;
    uint32_t division = 0;  // whose scheduler has its clients
  };
  using All = std::vector<Served>;
  static All::const_iterator find(const All& all, const std::string& service);

  const std::vector<engine::ServiceOptions> services_;
  HeldRequests& requests_;
  const Host host_;
  engine::Published<All> served_{std::make_shared<All>()};
  // A connection that has sent frames.
  struct Owner {
    uint64_t divisions = 0;  // that were told of it, as bits
    Time spoke;
  };
  void close_silent(Time now);
  void hand_on(const Directed& said, HeldRequests::Request held);

  Time told_operators_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, Owner> owners_;
};

}  // namespace fermata::cluster
