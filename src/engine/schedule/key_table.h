#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "engine/catalog.h"
#include "engine/execute/executor.h"
#include "model/latency_correction.h"
#include "policy/scheduler.h"

namespace fermata::engine {

// A variant in service and how much of it is under way.
struct ServedVariant {
  std::shared_ptr<const Variant> variant;
  Duration slo = Duration::infinite();
  uint64_t tasks = 0;                  // waiting or running
  absl::AnyInvocable<void()> retired;  // set: takes nothing new; called when tasks is 0
  absl::flat_hash_map<Shape, KeyId> keys;
  // Of requests that some workers cannot reach, by what holds their inputs.
  std::map<std::string, absl::flat_hash_map<Shape, KeyId>> apart;

  // Of requests whose inputs that one holds; empty: of all others.
  absl::flat_hash_map<Shape, KeyId>& keys_of(const std::string& holder) {
    return holder.empty() ? keys : apart[holder];
  }
  size_t size() const;
  template <class Visit>
  void each(const Visit& visit) const {
    for (const auto& [shape, key] : keys) visit(shape, key);
    for (const auto& [holder, own] : apart) {
      for (const auto& [shape, key] : own) visit(shape, key);
    }
  }
};

struct BatchKey {
  VariantId variant;
  Shape shape;
  std::vector<LatencyCorrection> corrections;  // by the table's types
  std::vector<LatencyByType::Table> runs;      // by the table's types, what workers take
  LatencyByType latency;                       // as decisions know it: with the way to the worker
  double item_bytes = 0;                       // of an item that goes to another host and back
  Time last_evidence;                          // when a batch ran, or its latency was doubted
  double elements = 0;                         // of an item's inputs; 0: the only shape
  bool ran = false;                            // its latency is measured
  uint64_t tasks = 0;                          // waiting or running
  uint64_t last_used = 0;
  std::string holder;       // of its requests' inputs, where it is apart from others of its shape
  bool knows_ways = false;  // the same: its scheduler knows which workers reach that
};

// Which batch keys there are: variant times shape per item, made when first seen. At most
// `limit` of each variant, so that the shapes of one leave the others alone; beyond that the one
// that was idle for longest goes. Scheduler thread.
class KeyTable {
 public:
  KeyTable(policy::Scheduler& scheduler, double quantile, size_t limit,
           std::vector<uint32_t> types = {0})
      : scheduler_(scheduler), quantile_(quantile), limit_(limit), types_(std::move(types)) {}

  // What is asked to let go of keys of a variant that it holds, where all are busy; false: it
  // cannot.
  void when_short(absl::AnyInvocable<bool(VariantId)> let_go) { let_go_ = std::move(let_go); }
  void add(std::shared_ptr<const Variant> variant, Duration slo);
  // Null where it is unknown or retired.
  ServedVariant* served(VariantId id);
  // Of a key that is there, retired or not.
  std::shared_ptr<const Variant> variant(VariantId id) const { return variants_.at(id)->variant; }
  // `gone` is called once nothing of it is under way, perhaps now.
  void retire(VariantId id, absl::AnyInvocable<void()> gone);

  // The key, made if need be; none where `limit` keys of the variant are busy. A new shape is
  // believed to take as long as the nearest measured one, the profiled or one that has run, by
  // how much larger it is; beyond 8 times that is a guess, which its own first run replaces.
  // With a holder of inputs it is apart from others of its shape.
  KeyId intern(ServedVariant& served, const Shape& shape, const std::string& holder = {});
  // Those that are apart for that holder.
  std::vector<KeyId> apart(const std::string& holder) const;
  BatchKey& at(KeyId key) { return *keys_.at(key); }
  const BatchKey& at(KeyId key) const { return *keys_.at(key); }
  // Batches that start from now on have at most so many items; no task may be larger.
  void limit_batches(uint32_t most, Time now, policy::Decisions& out);
  // A key's latency, corrected, for the scheduler.
  void update_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out);
  // What its workers take, of one type.
  LatencyByType with_run(BatchKey& key, uint32_t type, LatencyByType::Table run) const;
  // How long the way to workers of a type takes; whether keys have to be told, for which it must
  // have changed by more than a fifth.
  void set_link(uint32_t type, const LinkBound& link, Time now, policy::Decisions& out);
  const LinkBound& link(uint32_t type) const { return links_[type]; }
  // What a host has measured of a variant: of shapes that have not run yet.
  void set_profile(VariantId id, uint32_t type, const Profile& profile, Time now,
                   policy::Decisions& out);
  void task_added(KeyId key);
  void task_ended(KeyId key);
  size_t size() const { return keys_.size(); }

 private:
  // A key that has run, none: the profile; and how much larger an item of another shape is.
  struct Nearest {
    const BatchKey* key = nullptr;
    double scale = 1;
  };
  Nearest nearest(const ServedVariant& served, const BatchKey& own) const;
  bool make_room(const ServedVariant& served);
  bool drop_an_idle_key(const ServedVariant& served);
  void remove(KeyId key);
  void finish_retirement(VariantId id);
  LatencyByType limited(const LatencyByType& latency) const;
  LatencyByType::Table over_link(const BatchKey& key, uint32_t type) const;
  const Profile& profile_on(const Variant& variant, uint32_t type) const;

  policy::Scheduler& scheduler_;
  const double quantile_;
  const size_t limit_;
  const std::vector<uint32_t> types_;  // of the engine's, those that its workers have
  std::vector<LinkBound> links_{types_.size()};
  absl::flat_hash_map<std::pair<VariantId, uint32_t>, Profile> brought_;  // profiles, by type
  uint32_t most_items_ = ~uint32_t{0};                                    // of a batch
  uint64_t uses_ = 0;
  absl::AnyInvocable<bool(VariantId)> let_go_;
  absl::flat_hash_map<VariantId, std::unique_ptr<ServedVariant>> variants_;
  absl::flat_hash_map<KeyId, std::unique_ptr<BatchKey>> keys_;
};

// What decisions believe of a variant on one type of worker: its profile there at the quantile, up
// to max_batch by the fitted slope, times `scale`. Without a profile a guess of 1 ms and 0.1 ms an
// item.
std::shared_ptr<const LatencyTable> believed_latency(const Variant& variant, const Profile& profile,
                                                     double quantile, double scale);
inline std::shared_ptr<const LatencyTable> believed_latency(const Variant& variant, double quantile,
                                                            double scale,
                                                            uint32_t worker_type = 0) {
  return believed_latency(variant, variant.profile_on(worker_type), quantile, scale);
}

// How much larger an item of `shape` (as Admitted has it) is than the profiled one; 1
// where the profile does not say.
double relative_size(const Variant& variant, const Shape& shape);

}  // namespace fermata::engine
