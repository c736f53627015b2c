#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/engine.h"

namespace fermata::serve {

// An engine whose replies a test decides: what the front ends do between a
// submit and its reply can be seen step by step. Serves "echo" (input IN, output
// OUT, FP32, four elements an item); answers each request with its own input,
// or with `fail`, or keeps it where `hold` is set until it is cancelled or released.
class ScriptedEngine : public engine::Engine {
 public:
  ScriptedEngine() {
    auto variant = std::make_shared<engine::Variant>();
    variant->model = "echo";
    variant->version = "1";
    variant->config.set_name("echo");
    variant->config.set_platform("onnxruntime_onnx");
    variant->config.set_max_batch_size(8);
    variant->signature.batches = true;
    variant->signature.max_batch = 8;
    variant->signature.inputs.push_back({"IN", DataType::kFp32, {4}, {4}});
    variant->signature.outputs.push_back({"OUT", DataType::kFp32, {4}, {4}});
    auto service = std::make_shared<engine::Service>();
    service->name = service->model = "echo";
    service->versions.push_back(variant);
    auto catalog = std::make_shared<engine::Catalog>();
    catalog->services.push_back(service);
    catalog_ = std::move(catalog);
  }
  ~ScriptedEngine() override { release(absl::UnavailableError("the engine stops")); }

  Time now() const override { return monotonic_now(); }

  JobId submit(engine::InferRequest request, engine::Reply reply) override {
    std::unique_lock lock(mutex_);
    const JobId job(next_++);
    last_ = request;
    changed_.notify_all();
    if (hold) {
      held_.emplace(job, Held{std::move(request), std::move(reply)});
      return job;
    }
    const absl::Status status = fail;
    lock.unlock();
    answer(std::move(request), std::move(reply), status);
    return job;
  }

  void cancel(JobId job) override {
    std::unique_lock lock(mutex_);
    const auto found = held_.find(job);
    if (found == held_.end()) return;
    Held held = std::move(found->second);
    held_.erase(found);
    ++cancelled_;
    changed_.notify_all();
    lock.unlock();
    answer(std::move(held.request), std::move(held.reply), absl::CancelledError("cancelled"));
  }

  std::shared_ptr<const engine::Catalog> catalog() const override { return catalog_; }
  std::vector<engine::ModelStatus> index() const override {
    return {{"broken", "1", engine::ModelState::kUnavailable, "not a model"},
            {"echo", "1", engine::ModelState::kReady, ""}};
  }
  absl::Status load(std::string_view model, std::optional<std::string>) override {
    return model == "echo" ? absl::OkStatus() : not_found("no model {}", model);
  }
  absl::Status unload(std::string_view model) override { return load(model, {}); }
  std::vector<engine::ModelStatus> unserved() const override { return missing; }
  std::string why_failing(const engine::Variant&) const override { return failing; }
  void end_epoch() override {}
  std::vector<policy::Problem> last_problems() const override { return {}; }
  std::vector<engine::PlacementDecision> placement_decisions() const override {
    engine::PlacementDecision decision{.number = 7, .cause = "epoch"};
    decision.problem = {
        .subclusters = 2, .max_rate_rps = 1e6, .memory_mb = 64, .max_change_cost = 2};
    decision.problem.models = {{.name = "echo", .rate_rps = 12.5, .static_mb = 40, .current = 1}};
    decision.answer = plan::place(decision.problem);
    decision.changes = {{"echo", 1, 0, engine::PlacementChange::Result::kPostponed, "no room"}};
    return {decision};
  }
  engine::EngineSnapshot snapshot() const override {
    engine::EngineSnapshot result;
    result.policy = "scripted";
    auto& row = result.services.emplace_back();
    row.service = "echo";
    row.version = "1";
    row.inference_count = 7;
    row.success = {5, Duration::micros(50)};
    row.outcomes = {3, 2, 1, 0, 0, 0, 4, 0};
    row.batches[3].compute_infer = {2, Duration::micros(9)};
    row.slack_ms = {{-1, 0, 1}, {1, 1, 0, 3}, 12};
    result.worker_types = {"default"};
    result.workers.push_back({0, 0, 2, Duration::millis(30)});
    result.subclusters = {{1, 40, 64}, {1, 0, 64}};
    result.placement.subcluster_of = {{"echo", 0}};
    result.placement.epochs = 3;
    result.placement.moves = 2;
    result.placement.last_epoch = Duration::millis(250);
    result.placement.memory_imbalance = 2;
    result.autoscale = {Duration::seconds(10), 0.5, 0.125, 3};
    return result;
  }

  // Answers everything that is held, with the input or the error.
  void release(const absl::Status& status = absl::OkStatus()) {
    std::unique_lock lock(mutex_);
    auto held = std::exchange(held_, {});
    lock.unlock();
    for (auto& [job, h] : held) answer(std::move(h.request), std::move(h.reply), status);
  }
  void wait_held(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() == count; });
  }
  void wait_cancelled(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return cancelled_ == count; });
  }
  engine::InferRequest last() {
    const std::scoped_lock lock(mutex_);
    return last_;
  }

  // Not beside other threads.
  void serve_nothing() { catalog_ = std::make_shared<engine::Catalog>(); }
  std::vector<engine::ModelStatus> missing;
  std::string failing;

  bool hold = false;  // set before requests are sent
  absl::Status fail;

 private:
  struct Held {
    engine::InferRequest request;
    engine::Reply reply;
  };

  static void answer(engine::InferRequest request, engine::Reply reply, absl::Status status) {
    engine::ReplyPart part;
    part.model = request.service;
    part.version = "1";
    part.id = request.id;
    part.status = std::move(status);
    part.why = {engine::Outcome::kOnTime,
                "echo",
                "1",
                0,
                1,
                Duration::millis(20),
                Duration::micros(30),
                Duration::micros(40),
                Duration::millis(10)};
    if (part.status.ok()) {
      part.outputs = std::move(request.inputs);
      for (Tensor& tensor : part.outputs) tensor.name = "OUT";
    }
    reply(std::move(part));
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<JobId, Held> held_;
  uint64_t next_ = 1;
  int cancelled_ = 0;
  engine::InferRequest last_;
  std::shared_ptr<const engine::Catalog> catalog_;
};

}  // namespace fermata::serve
