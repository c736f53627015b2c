#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/ids.h"
#include "base/time.h"
#include "cluster/frontend/held_requests.h"
#include "engine/request.h"

namespace fermata::cluster {

// Requests of stages whose inputs a worker kept and has no more: the stages that gave them run
// again and bring them here, and then the request goes on. What comes is counted as held by the
// request; what the stages run with counts already, with their source. Each is handed on, or
// replied to, once. Thread-safe.
class StageReruns {
 public:
  struct Host {
    std::function<JobId()> next_id;
    std::function<void(JobId, engine::InferRequest, engine::Reply)> submit;
    std::function<void(JobId)> cancel;
    std::function<void(JobId, HeldRequests::Request)> go_on;
  };
  explicit StageReruns(Host host) : host_(std::move(host)) {}

  // Takes a request over from who has it: `lose` says what it is, or that it is not there, or has
  // lost nothing; then false.
  using Lose = absl::FunctionRef<std::optional<HeldRequests::Request>()>;
  bool begin(JobId id, Lose lose);
  // False: it is not here. One that changes hands is, until the other one has it.
  bool cancel(JobId id);
  // Ends all that are here, and all that come.
  void stop(const absl::Status& why);

 private:
  using Source = HeldRequests::Source;
  struct Waiting {
    std::optional<HeldRequests::Request> request;  // none: it changes hands
    std::map<const Source*, JobId> runs;           // that have not ended
    uint64_t came = 0;                             // bytes of inputs
    bool cancelled = false;                        // while it changes hands
  };
  void run(JobId id, const std::map<const Source*, JobId>& runs,
           std::vector<std::shared_ptr<const Source>> sources, Time deadline);
  void ended(JobId id, const Source* source, engine::ReplyPart part);
  void refuse(Waiting waiting, engine::ReplyPart part);
  void handed_over(JobId id);

  const Host host_;
  std::mutex mutex_;
  std::optional<absl::Status> over_;
  std::map<JobId, Waiting> waiting_;
};

}  // namespace fermata::cluster
