#include "engine/services/operator_runner.h"

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

absl::StatusOr<std::vector<Tensor>> run_operator(const OperatorRunner::Work& work, Time now) {
  if (now > work.deadline) {
    return error(absl::StatusCode::kDeadlineExceeded, "the deadline passed before it could begin");
  }
  std::vector<Tensor> inputs;
  for (const TensorSpec& wanted : work.op->inputs()) {
    const auto at =
        absl::c_find_if(work.inputs, [&](const Tensor& t) { return t.name == wanted.name; });
    if (at == work.inputs.end()) return invalid("input '{}' is missing", wanted.name);
    inputs.push_back(*at);
  }
  return work.op->run(inputs);
}

}  // namespace

OperatorRunner::OperatorRunner(uint32_t threads) {
  FERMATA_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { loop(); });
}

OperatorRunner::~OperatorRunner() {
  std::unique_ptr<Work> waiting;
  while (queue_.try_dequeue(waiting)) {
    waiting->done({.outputs = error(absl::StatusCode::kUnavailable, "the server is stopping")});
  }
  for (size_t i = 0; i < threads_.size(); ++i) queue_.enqueue(nullptr);
  for (std::thread& thread : threads_) thread.join();
}

void OperatorRunner::loop() {
  std::unique_ptr<Work> work;
  while (true) {
    queue_.wait_dequeue(work);
    if (work == nullptr) return;
    const Time started = monotonic_now();
    auto outputs = run_operator(*work, started);
    work->done({.outputs = std::move(outputs),
                .waited = started - work->submitted,
                .ran = monotonic_now() - started});
    work.reset();
  }
}

}  // namespace fermata::engine
