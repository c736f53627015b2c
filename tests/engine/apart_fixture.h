#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/apart/apart_executor.h"
#include "engine/confine/nursery.h"
#include "engine/fixture.h"
#include "engine/trial/loader.h"

namespace fermata::engine {

// Of all tests of a program.
inline std::shared_ptr<Nursery> test_nursery() {
  static const auto one = std::make_shared<Nursery>(fermata_command());
  return one;
}

inline EngineOptions apart_options(const std::filesystem::path& repository) {
  EngineOptions options = options_for(repository);
  options.workers.isolation = Isolation::kProcess;
  options.workers.program = fermata_command();
  options.workers.nursery = test_nursery();
  return options;
}

// Workers of one model in processes of `program`.
class OneApart {
 public:
  OneApart(const std::string& folder, const std::string& model,
           const std::string& program = fermata_command(), uint32_t workers = 1,
           bool standby = false)
      : OneApart(options_of(folder, program, workers, standby), model) {}
  OneApart(EngineOptions options, const std::string& model) : options_(std::move(options)) {
    executors_ = *make_workers(options_.workers);
    Loader loader(options_, {&executors_, 1});
    variant_ = std::make_shared<const Variant>(
        *loader.open(*read_model_folder(options_.repository, model), 1));
    for (uint32_t i = 0; i < options_.workers.count(); ++i) made_.push_back(executors_->make());
  }
  absl::Status load() {
    for (const auto& executor : made_) {
      if (absl::Status loaded = executor->load(variant_); !loaded.ok()) return loaded;
    }
    return absl::OkStatus();
  }
  BatchResult run(const std::vector<std::vector<Tensor>>& requests, Duration limit) {
    return run(variant_->id, requests, limit);
  }
  BatchResult run(VariantId variant, const std::vector<std::vector<Tensor>>& requests,
                  Duration limit = Duration::seconds(600)) {
    BatchRun batch{.variant = variant, .limit = limit};
    for (const std::vector<Tensor>& inputs : requests) {
      batch.parts.push_back({&inputs, &outputs_, 0, static_cast<uint32_t>(inputs[0].shape[0])});
    }
    return run_and_wait(*made_.front(), std::move(batch));
  }
  BatchResult run(const std::vector<std::vector<Tensor>>& requests) {
    return run(requests, Duration::seconds(600));
  }
  std::string error(const std::vector<Tensor>& request, Duration limit = Duration::seconds(600)) {
    return std::string(run({request}, limit).parts[0].status().message());
  }
  void await_process() {
    const auto back = std::make_shared<std::promise<void>>();
    executor().when_back(variant_->id, [back] { back->set_value(); });
    ASSERT_EQ(back->get_future().wait_for(std::chrono::minutes(10)), std::future_status::ready)
        << "its process does not come back";
  }
  void stop_loading() { executors_->stop_loading(); }
  ExecutorFactory& executors() { return *executors_; }
  Executor& executor(uint32_t worker = 0) { return *made_[worker]; }
  const std::shared_ptr<const Variant>& shared_variant() const { return variant_; }
  const Variant& variant() const { return *variant_; }
  ProcessStatistics process() const { return executors_->processes().front(); }

 private:
  static EngineOptions options_of(const std::string& folder, const std::string& program,
                                  uint32_t workers, bool standby) {
    EngineOptions options = apart_options(folder);
    options.workers.program = program;
    if (program != fermata_command()) options.workers.nursery = nullptr;
    options.workers.standby = standby;
    options.workers.types[0].count = workers;
    return options;
  }

  EngineOptions options_;
  std::unique_ptr<ExecutorFactory> executors_;
  std::vector<std::shared_ptr<Executor>> made_;
  std::shared_ptr<const Variant> variant_;
  const std::vector<std::string> outputs_;
};

inline constexpr Duration kBound = Duration::seconds(60);  // of what is waited for

inline std::string models() { return data_folder() + "/repository"; }

inline Tensor rows_at(std::vector<int64_t> rows) {
  const auto count = static_cast<int64_t>(rows.size());
  return tensor<int64_t>("index", DataType::kInt64, {count, 1}, std::move(rows));
}

}  // namespace fermata::engine
