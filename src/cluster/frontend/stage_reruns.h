#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "base/ids.h"
#include "cluster/frontend/held_requests.h"
#include "engine/request.h"

namespace fermata::cluster {

// Requests of stages whose inputs a worker kept and has no more: the stages that gave them run
// again and bring them here, and then the request goes on. Each is handed on, or replied to, once.
// Thread-safe.
class StageReruns {
 public:
  struct Host {
    std::function<JobId()> next_id;
    std::function<void(JobId, engine::InferRequest, engine::Reply)> submit;
    std::function<void(JobId)> cancel;
    std::function<void(JobId, HeldRequests::Request)> go_on;
  };
  explicit StageReruns(Host host) : host_(std::move(host)) {}

  void begin(JobId id, HeldRequests::Request request);
  bool cancel(JobId id);  // false: it is not here

 private:
  struct Waiting {
    HeldRequests::Request request;
    std::map<const HeldRequests::Source*, JobId> runs;  // that have not ended
  };
  void ended(JobId id, const HeldRequests::Source* source, engine::ReplyPart part);
  void refuse(Waiting waiting, engine::ReplyPart part);

  const Host host_;
  std::mutex mutex_;
  std::map<JobId, Waiting> waiting_;
};

}  // namespace fermata::cluster
