#include "engine/execute/model_calls.h"

#include <utility>

#include "base/status.h"

namespace fermata::engine {

void ModelCalls::open(Server server) {
  const std::unique_lock lock(serving_);
  server_ = std::move(server);
}

void ModelCalls::close() { open({}); }

bool ModelCalls::begin(const void* caller) {
  const std::lock_guard lock(mutex_);
  if (!waiting_.contains(caller) && waiting_.size() + 1 >= workers_) return false;
  ++waiting_[caller];
  return true;
}

void ModelCalls::end(const void* caller) {
  const std::lock_guard lock(mutex_);
  const auto it = waiting_.find(caller);
  if (--it->second == 0) waiting_.erase(it);
}

JobId ModelCalls::call(const void* caller, InferRequest request, Reply reply) {
  const auto refuse = [&](absl::Status why) {
    reply({.status = std::move(why), .model = request.service});
    return JobId::none();
  };
  if (!begin(caller)) {
    return refuse(error(absl::StatusCode::kUnavailable,
                        "no worker is left for the call of '{}', since a model that calls another "
                        "keeps its own: write workers.count: {} or more",
                        request.service, workers_ + 1));
  }
  const std::shared_lock lock(serving_);
  if (!server_.submit) {
    end(caller);
    return refuse(error(absl::StatusCode::kUnavailable,
                        "calls of models are answered by a server, and it starts or stops"));
  }
  return server_.submit(std::move(request),
                        [this, caller, reply = std::move(reply)](ReplyPart part) mutable {
                          end(caller);
                          reply(std::move(part));
                        });
}

void ModelCalls::cancel(JobId job) {
  const std::shared_lock lock(serving_);
  if (server_.cancel) server_.cancel(job);
}

}  // namespace fermata::engine
