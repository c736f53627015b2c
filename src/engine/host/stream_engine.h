#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/host/published.h"
#include "engine/services/stream_service.h"

namespace fermata::engine {

// An engine with stream services before another one, which serves their variants as any others.
class StreamEngine : public Engine {
 public:
  // UNAVAILABLE or as StreamService::make says where a variant is not ready.
  static absl::StatusOr<std::unique_ptr<Engine>> make(std::unique_ptr<Engine> inner,
                                                      const std::vector<ServiceOptions>& services,
                                                      uint32_t workers);
  ~StreamEngine() override;

  Time now() const override { return inner_->now(); }
  JobId submit(InferRequest request, Reply reply) override;
  void cancel(JobId job) override { inner_->cancel(job); }
  std::shared_ptr<const Catalog> catalog() const override;
  std::vector<ModelStatus> index() const override;
  absl::Status load(std::string_view model, std::optional<std::string> config) override {
    return inner_->load(model, std::move(config));
  }
  absl::Status unload(std::string_view model) override { return inner_->unload(model); }
  void end_epoch() override { inner_->end_epoch(); }
  std::vector<PlacementDecision> placement_decisions() const override {
    return inner_->placement_decisions();
  }
  std::vector<policy::Problem> last_problems() const override { return inner_->last_problems(); }
  uint32_t set_workers(uint32_t count) override { return inner_->set_workers(count); }
  void end_second() override { inner_->end_second(); }
  std::vector<AdapterDecision> adapter_decisions() const override;
  std::vector<plan::StreamProblem> last_stream_problems() const override;
  void close_streams(uint64_t owner) override;
  EngineSnapshot snapshot() const override;
  bool overdue() const override { return inner_->overdue(); }

 private:
  explicit StreamEngine(std::unique_ptr<Engine> inner) : inner_(std::move(inner)) {}
  StreamService* find(std::string_view service) const;

  std::unique_ptr<Engine> inner_;
  std::vector<std::unique_ptr<StreamService>> services_;
  mutable std::mutex mutex_;  // of the next two
  mutable std::shared_ptr<const Catalog> seen_, joined_;
};

}  // namespace fermata::engine
