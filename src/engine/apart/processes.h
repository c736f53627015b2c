#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/apart/supervised.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "engine/threads/background_thread.h"

namespace fermata::engine::apart {

// The processes of one type's workers: one for each model and every `slots` workers, by what it
// loads. They live while a worker uses them. Thread-safe.
class Processes {
 public:
  Processes(const WorkerOptions& options, uint32_t type, uint32_t slots)
      : options_(options), type_(options.types[type]), slots_(slots) {}

  // Where a worker's runs of a variant go: a process, and its slot there.
  struct Seat {
    std::shared_ptr<Supervised> supervised;
    uint32_t slot = 0;
  };
  Seat of(const Variant& variant, uint32_t worker);
  // As ExecutorFactory has it: asks a process that ends then.
  absl::StatusOr<inference::ModelConfig> complete(const Variant& variant) const;
  // Sweeps it, on a thread of its own, and ends it where nobody else has it.
  void end_later(std::shared_ptr<Supervised> one) { (void)ending_.submit(one); }
  std::vector<ProcessStatistics> statistics() const;
  std::string why_away(const Variant& variant) const;  // as Supervised's, of any of its

 private:
  static constexpr size_t kMostEnding = 1 << 20;
  using Key = std::pair<VariantId, uint32_t>;
  std::vector<std::string> command_of(const Variant& variant) const;
  ModelProcess::Options process_for(const Variant& variant) const;
  std::map<Key, std::shared_ptr<Supervised>> all() const;

  const WorkerOptions options_;
  const WorkerType type_;
  const uint32_t slots_;
  const std::shared_ptr<Ledger> ledger_ = std::make_shared<Ledger>();
  mutable std::mutex mutex_;
  std::map<Key, std::weak_ptr<Supervised>> known_;
  BackgroundThread<std::shared_ptr<Supervised>> ending_{
      1, kMostEnding, [](absl::Span<std::shared_ptr<Supervised>> some) { some.front()->sweep(); }};
};

}  // namespace fermata::engine::apart
