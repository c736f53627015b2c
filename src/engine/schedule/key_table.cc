#include "engine/schedule/key_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

constexpr double kLongestMs = 1e9;  // eleven days: what a profile says beyond is not believed
// A shape so many times as large or small as the nearest measured one is not extrapolated
// further: what every run costs does not grow with it.
constexpr double kFurthest = 8;

// The elements of one item over all inputs; free dimensions come from `next`.
template <class Next>
double item_elements(const Signature& signature, Next next) {
  double sum = 0;
  for (const TensorSpec& spec : signature.inputs) {
    double count = 1;
    for (size_t i = 0; i < spec.dims.size(); ++i) count *= static_cast<double>(next(spec, i));
    sum += count;
  }
  return sum;
}

// 0: the model has only one shape.
double elements_of(const Variant& variant, const Shape& shape) {
  if (shape.empty()) return 0;
  size_t at = 0;
  return item_elements(variant.signature, [&](const auto&, size_t) { return shape[at++]; });
}

std::shared_ptr<const LatencyTable> scaled(const LatencyTable& table, double scale,
                                           uint32_t most = ~uint32_t{0}) {
  TableLatency points;
  const uint32_t largest = std::min(most, table.max_batch());
  for (uint32_t b = 1; b <= largest; ++b) {
    points.points_ms[b] = std::clamp(table(b).millis() * scale, 1e-6, kLongestMs);
  }
  auto made = LatencyTable::make(points, largest, table.version());
  FERMATA_CHECK(made.ok());
  return *std::move(made);
}

}  // namespace

double relative_size(const Variant& variant, const Shape& shape) {
  const auto& profiled = variant.profile.shapes;
  // A model whose shape is fixed has none here, whatever its profile says.
  if (profiled.empty() || shape.empty() || std::find(shape.begin(), shape.end(), -1) != shape.end())
    return 1;
  const double own = elements_of(variant, shape);
  const double base = item_elements(variant.signature, [&](const TensorSpec& spec, size_t i) {
    const auto it = profiled.find(spec.name);
    const bool known = it != profiled.end() && i < it->second.size();
    return known ? it->second[i] : std::max<int64_t>(1, spec.dims[i]);
  });
  return base > 0 ? std::max(own / base, 1e-3) : 1;
}

std::shared_ptr<const LatencyTable> believed_latency(const Variant& variant, const Profile& profile,
                                                     double quantile, double scale) {
  const uint32_t max_batch = variant.signature.max_batch;
  TableLatency table{{{1, 1.1}, {max_batch + 1, 1.0 + 0.1 * (max_batch + 1)}}};
  if (profile.measured()) {
    table = latency_at(profile, quantile);
    const auto [last, last_ms] = *table.points_ms.rbegin();
    const double slope =
        table.points_ms.size() > 1 ? profile.linear.latency.alpha_ms : last_ms / last;
    if (last < max_batch) {
      table.points_ms[max_batch] = last_ms + std::max(0.0, slope) * (max_batch - last);
    }
  }
  for (auto& [items, ms] : table.points_ms) ms = std::clamp(ms * scale, 1e-6, kLongestMs);
  auto latency = LatencyTable::make(table, max_batch, profile.version);
  FERMATA_CHECK(latency.ok());
  return *std::move(latency);
}

void KeyTable::add(std::shared_ptr<const Variant> variant, Duration slo) {
  auto served = std::make_unique<ServedVariant>();
  const VariantId id = variant->id;
  served->variant = std::move(variant);
  served->slo = slo;
  variants_[id] = std::move(served);
}

ServedVariant* KeyTable::served(VariantId id) {
  const auto it = variants_.find(id);
  return it == variants_.end() || it->second->retired ? nullptr : it->second.get();
}

size_t ServedVariant::size() const {
  size_t sum = keys.size();
  for (const auto& [holder, own] : apart) sum += own.size();
  return sum;
}

std::vector<KeyId> KeyTable::apart(const std::string& holder) const {
  std::vector<KeyId> all;
  for (const auto& [id, served] : variants_) {
    const auto own = served->apart.find(holder);
    if (own == served->apart.end()) continue;
    for (const auto& [shape, key] : own->second) all.push_back(key);
  }
  return all;
}

KeyId KeyTable::intern(ServedVariant& served, const Shape& shape, const std::string& holder) {
  const auto& known_shapes = served.keys_of(holder);
  if (const auto it = known_shapes.find(shape); it != known_shapes.end()) return it->second;
  if (served.size() >= limit_ && !make_room(served)) return KeyId::none();
  const Variant& variant = *served.variant;
  auto known = std::make_unique<BatchKey>(BatchKey{.variant = variant.id,
                                                   .shape = shape,
                                                   .elements = elements_of(variant, shape),
                                                   .last_used = ++uses_,
                                                   .holder = holder});
  const Nearest from = nearest(served, *known);
  const double scale = std::clamp(from.scale, 1 / kFurthest, kFurthest);
  std::vector<LatencyByType::Table> tables;
  Duration load;
  for (uint32_t t = 0; t < types_.size(); ++t) {
    const Profile& profile = profile_on(variant, t);
    const bool ran = from.key != nullptr;
    known->runs.push_back(ran ? scaled(*from.key->runs[t], scale)
                              : believed_latency(variant, profile, quantile_, scale));
    const bool guessed = scale != from.scale || (!ran && !profile.measured());
    known->corrections.emplace_back(known->runs.back(), quantile_, guessed);
    tables.push_back(over_link(*known, t));
    load = std::max(load, Duration::from_millis(profile.load_ms));
  }
  known->latency = LatencyByType(std::move(tables));
  const KeyId key =
      scheduler_.add_key({.name = variant.model + "/" + variant.version + to_string(shape),
                          .latency = limited(known->latency),
                          .slo = served.slo,
                          .variant = variant.loads(),
                          .load = load,
                          .memory_bytes = static_cast<int64_t>(
                              (variant.memory.static_mb + variant.memory.dynamic_mb) * 1048576)});
  keys_[key] = std::move(known);
  served.keys_of(holder)[shape] = key;  // what made room may have let go of all that it held
  return key;
}

LatencyByType KeyTable::limited(const LatencyByType& latency) const {
  if (latency.slowest()->max_batch() <= most_items_) return latency;
  std::vector<LatencyByType::Table> tables;
  for (const auto& table : latency.tables()) tables.push_back(scaled(*table, 1, most_items_));
  return LatencyByType(std::move(tables));
}

void KeyTable::limit_batches(uint32_t most, Time now, policy::Decisions& out) {
  if (std::exchange(most_items_, most) == most) return;
  for (const auto& [id, key] : keys_) {
    scheduler_.update_latency(id, limited(key->latency), now, out);
  }
}

void KeyTable::update_latency(KeyId key, LatencyByType latency, Time now, policy::Decisions& out) {
  at(key).latency = std::move(latency);
  scheduler_.update_latency(key, limited(at(key).latency), now, out);
}

const Profile& KeyTable::profile_on(const Variant& variant, uint32_t type) const {
  const auto brought = brought_.find({variant.id, type});
  return brought == brought_.end() ? variant.profile_on(types_[type]) : brought->second;
}

LatencyByType::Table KeyTable::over_link(const BatchKey& key, uint32_t type) const {
  const LinkBound& link = links_[type];
  const LatencyByType::Table& run = key.runs[type];
  if (link.control <= Duration()) return run;
  TableLatency points;
  for (uint32_t b = 1; b <= run->max_batch(); ++b) {
    points.points_ms[b] = ((*run)(b) + link(key.item_bytes * b)).millis();
  }
  auto made = LatencyTable::make(points, run->max_batch(), run->version());
  FERMATA_CHECK(made.ok());
  return *std::move(made);
}

LatencyByType KeyTable::with_run(BatchKey& key, uint32_t type, LatencyByType::Table run) const {
  key.runs[type] = std::move(run);
  return key.latency.with(type, over_link(key, type));
}

void KeyTable::set_link(uint32_t type, const LinkBound& link, Time now, policy::Decisions& out) {
  constexpr double kChange = 0.2;
  constexpr double kTypicalBytes = 1 << 17;  // where both parts of it count
  for (const double bytes : {0.0, kTypicalBytes}) {
    const Duration before = links_[type](bytes), after = link(bytes);
    if (std::abs((after - before).seconds()) <= kChange * before.seconds()) continue;
    links_[type] = link;
    for (const auto& [id, key] : keys_) {
      update_latency(id, with_run(*key, type, key->runs[type]), now, out);
    }
    return;
  }
}

void KeyTable::set_profile(VariantId id, uint32_t type, const Profile& profile, Time now,
                           policy::Decisions& out) {
  const auto served = variants_.find(id);
  if (served == variants_.end() || !profile.measured()) return;
  const Variant& variant = *served->second->variant;
  brought_[{id, type}] = profile;
  served->second->each([&](const Shape& shape, KeyId key) {
    BatchKey& known = at(key);
    if (known.ran) return;
    const double scale = std::clamp(relative_size(variant, shape), 1 / kFurthest, kFurthest);
    auto run = believed_latency(variant, profile, quantile_, scale);
    known.corrections[type] = LatencyCorrection(run, quantile_, false);
    update_latency(key, with_run(known, type, std::move(run)), now, out);
  });
}

// Of equally near ones the profile, which is of many runs.
KeyTable::Nearest KeyTable::nearest(const ServedVariant& served, const BatchKey& own) const {
  const auto same = served.keys.find(own.shape);
  if (same != served.keys.end() && keys_.at(same->second)->ran)
    return {keys_.at(same->second).get()};
  const Variant& variant = *served.variant;
  Nearest best{nullptr, relative_size(variant, own.shape)};
  bool any = variant.profile.measured();
  for (const auto& [shape, id] : served.keys) {
    const BatchKey& other = *keys_.at(id);
    if (!other.ran || other.elements <= 0) continue;
    const double scale = own.elements / other.elements;
    if (any && std::abs(std::log(scale)) >= std::abs(std::log(best.scale))) continue;
    best = {&other, scale};
    any = true;
  }
  return best;
}

void KeyTable::task_added(KeyId key) {
  BatchKey& known = at(key);
  ++known.tasks;
  known.last_used = ++uses_;
  ++variants_.at(known.variant)->tasks;
}

void KeyTable::task_ended(KeyId key) {
  BatchKey& known = at(key);
  const VariantId id = known.variant;
  --known.tasks;
  ServedVariant& served = *variants_.at(id);
  if (--served.tasks == 0 && served.retired) finish_retirement(id);
}

void KeyTable::retire(VariantId id, absl::AnyInvocable<void()> gone) {
  ServedVariant& served = *variants_.at(id);
  served.retired = std::move(gone);
  if (served.tasks == 0) finish_retirement(id);
}

void KeyTable::finish_retirement(VariantId id) {
  const std::unique_ptr<ServedVariant> served = std::move(variants_.at(id));
  variants_.erase(id);
  for (uint32_t t = 0; t < types_.size(); ++t) brought_.erase({id, t});
  served->each([this](const Shape&, KeyId key) {
    scheduler_.remove_key(key);
    keys_.erase(key);
  });
  served->retired();
}

bool KeyTable::make_room(const ServedVariant& served) {
  while (!drop_an_idle_key(served)) {
    if (!let_go_ || !let_go_(served.variant->id)) return false;
  }
  return true;
}

bool KeyTable::drop_an_idle_key(const ServedVariant& served) {
  KeyId oldest;
  uint64_t used = 0;
  served.each([&](const Shape&, KeyId key) {
    const BatchKey& known = at(key);
    if (known.tasks == 0 && (oldest.is_none() || known.last_used < used)) {
      oldest = key;
      used = known.last_used;
    }
  });
  if (oldest.is_none()) return false;
  remove(oldest);
  return true;
}

void KeyTable::remove(KeyId key) {
  const BatchKey& known = at(key);
  ServedVariant& served = *variants_.at(known.variant);
  served.keys_of(known.holder).erase(known.shape);
  if (!known.holder.empty() && served.keys_of(known.holder).empty()) {
    served.apart.erase(known.holder);
  }
  scheduler_.remove_key(key);
  keys_.erase(key);
}

}  // namespace fermata::engine
