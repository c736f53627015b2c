#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "cluster/frontend/held_requests.h"
#include "engine/request.h"

namespace fermata::cluster {

// Requests of stages whose inputs a worker kept and has no more: the stages that gave them run
// again and bring them here, and then the request goes on. What comes is counted as held by the
// request; what the stages run with counts already, with their source. Each goes on, or is replied
// to, once: a run that fails ends it, so that all end with a frontend. Meanwhile it is away from
// HeldRequests. Thread-safe.
class StageReruns {
 public:
  struct Host {
    std::function<void(JobId, engine::InferRequest, engine::Reply)> submit;
    std::function<void(JobId)> cancel;
    std::function<void(JobId, HeldRequests::Request)> go_on;  // adds it again
  };
  StageReruns(HeldRequests& requests, Host host) : requests_(requests), host_(std::move(host)) {}

  // Takes a request over from HeldRequests. False: that has none of this id that has lost inputs.
  bool begin(JobId id);
  // One that HeldRequests notes as cancelled goes on at once, to be ended there.
  void cancel(JobId id);

 private:
  using Source = HeldRequests::Source;
  struct Waiting {
    HeldRequests::Request request;
    std::map<const Source*, JobId> runs;  // that have not ended
    uint64_t came = 0;                    // bytes of inputs
  };
  void run(JobId id, const std::map<const Source*, JobId>& runs,
           std::vector<std::shared_ptr<const Source>> sources, Time deadline);
  void ended(JobId id, const Source* source, engine::ReplyPart part);
  void refuse(JobId id, Waiting waiting, engine::ReplyPart part);

  HeldRequests& requests_;
  const Host host_;
  std::mutex mutex_;
  std::map<JobId, Waiting> waiting_;
};

}  // namespace fermata::cluster
