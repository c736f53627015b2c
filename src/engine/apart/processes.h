#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "engine/apart/supervised.h"
#include "engine/catalog.h"
#include "engine/execute/model_calls.h"
#include "engine/options.h"
#include "engine/threads/background_thread.h"

namespace fermata::engine::apart {

// The processes of one type's workers: one for each model and every `slots` workers, by what it
// loads. They live while a worker uses them. Thread-safe.
class Processes {
 public:
  // `together`: all models in one process, each on a slot of its own, but for those of another
  // program.
  Processes(const WorkerOptions& options, uint32_t type, uint32_t slots, bool together);

  // Where a worker's runs of a variant go: a process, and its slot there. A worker has one seat for
  // all variants with the same weights, until it has left as many as it asked for.
  struct Seat {
    std::shared_ptr<Supervised> supervised;
    uint32_t slot = 0;
  };
  Seat of(const Variant& variant, const void* worker);
  void leave(const Variant& variant, const void* worker);
  // As ExecutorFactory has it: asks a process that ends then.
  absl::StatusOr<inference::ModelConfig> complete(const Variant& variant) const;
  // On a thread of its own, where those end too that nobody has any more.
  void sweep_later(std::shared_ptr<Supervised> one) {
    do_later([one = std::move(one)] { one->sweep(); });
  }
  // As ExecutorFactory has it, both. Threads of a session would stay as quiet as what made them.
  void be_quiet() { quietly_ = true; }
  void stop_loading();
  void serve_calls(std::shared_ptr<ModelCalls> calls) { calls_ = std::move(calls); }
  std::vector<ProcessStatistics> statistics() const;
  std::string why_away(const Variant& variant) const;  // as Supervised's, of any of its

 private:
  static constexpr size_t kMostEnding = 1 << 20;
  using Key = std::pair<VariantId, uint32_t>;  // what it loads, and which of its processes
  using Task = absl::AnyInvocable<void()>;
  struct Sitting {
    const void* worker = nullptr;
    uint32_t variants = 0;
  };

  void do_later(Task task) { (void)ending_.submit(task); }
  uint32_t seat(VariantId weights, const void* worker);
  bool shares(const Variant& variant) const;  // its process with all others
  VariantId home_of(const Variant& variant) const;
  std::vector<std::string> command_of(const Variant& variant) const;
  absl::StatusOr<inference::ModelConfig> inquire(ModelProcess& process,
                                                 const Variant& variant) const;
  ModelProcess::Options process_for(const Variant& variant) const;
  bool opens_once(const Variant& variant) const;
  std::shared_ptr<Nursery> opened(VariantId home);
  void stop_opening(VariantId home);
  std::map<Key, std::shared_ptr<Supervised>> all() const;

  const WorkerOptions options_;
  const WorkerType type_;
  const uint32_t slots_;
  const Duration look_;
  std::atomic<bool> quietly_{false};
  const bool together_;
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  // Of a server; else of nobody, who refuses them.
  std::shared_ptr<ModelCalls> calls_ = std::make_shared<ModelCalls>();
  mutable std::mutex mutex_;
  bool loads_ = true;
  std::map<VariantId, std::map<uint32_t, Sitting>> seats_;  // by weights and number
  std::map<Key, std::weak_ptr<Supervised>> known_;
  // By weights: those that have opened them once for all processes that run them.
  std::map<VariantId, std::weak_ptr<Nursery>> opened_;
  mutable std::set<ModelProcess*> completing_;
  BackgroundThread<Task> ending_{1, kMostEnding,
                                 [](absl::Span<Task> some) { std::exchange(some.front(), {})(); }};
};

}  // namespace fermata::engine::apart
