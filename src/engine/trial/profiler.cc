#include "engine/trial/profiler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/status.h"
#include "engine/trial/made_up.h"

namespace fermata::engine {
namespace {

// The most that the zeros of one batch may take: a hostile file promises any shape.
constexpr double kMostInputBytes = 1 << 30;

// Runs one batch of one part and waits for it. No item leaves it early: the worst case counts.
absl::StatusOr<BatchResult> run_once(Executor& executor, const Variant& variant,
                                     const Shapes& shapes, uint32_t items) {
  const std::vector<Tensor> inputs =
      made_up_inputs(variant, shapes, MadeUp::kZeros, std::vector<uint32_t>(items));
  const std::vector<std::string> all_outputs;
  BatchResult result = run_and_wait(
      executor,
      {.variant = variant.id, .parts = {{&inputs, &all_outputs, 0, items}}, .to_the_end = true});
  RETURN_IF_ERROR(result.parts.front().status());
  return result;
}

double quantile_ms(std::vector<Duration>& each, double q) {
  std::sort(each.begin(), each.end());
  const auto rank = static_cast<size_t>(q * static_cast<double>(each.size() - 1) + 0.5);
  return std::max(each[rank].millis(), 1e-6);
}

BatchProfile summary(const Histogram& times, std::vector<Duration> each,
                     std::vector<std::vector<Duration>> stages) {
  BatchProfile profile{static_cast<uint32_t>(each.size()),
                       quantile_ms(each, 0.5),
                       quantile_ms(each, 0.9),
                       quantile_ms(each, 0.99),
                       std::max(times.mean().millis(), 1e-6),
                       {}};
  for (std::vector<Duration>& stage : stages) profile.stages_ms.push_back(quantile_ms(stage, 0.5));
  return profile;
}

absl::StatusOr<BatchProfile> measure_size(Executor& executor, const Variant& variant,
                                          const Shapes& shapes, uint32_t items,
                                          const MeasureOptions& options,
                                          std::optional<BatchResult> first,
                                          absl::FunctionRef<void(double)> progress) {
  const auto before = options.made.find(items);
  size_t made = 0;
  const auto run = [&]() -> absl::StatusOr<BatchResult> {
    if (before == options.made.end() || made == before->second.size()) {
      return run_once(executor, variant, shapes, items);
    }
    BatchResult result;
    result.run = before->second[made++];
    return result;
  };
  Duration spent;
  Histogram times;
  std::vector<Duration> each;
  std::vector<std::vector<Duration>> stages;
  const auto count = [&](const BatchResult& result) {
    times.record(result.total());
    each.push_back(result.total());
    spent = spent + result.total();
    stages.resize(result.stages.size());
    for (size_t s = 0; s < stages.size(); ++s) stages[s].push_back(result.stages[s].took);
    progress(static_cast<double>(each.size()) / options.runs);
  };
  if (!first) {
    ASSIGN_OR_RETURN(first, run());
  }
  if (options.fastest && first->total() > options.each) count(*first);
  while (each.empty() ||
         (each.front() <= options.each && each.size() < options.runs && spent < options.each)) {
    ASSIGN_OR_RETURN(const BatchResult result, run());
    count(result);
  }
  if (options.fastest) each.assign(each.size(), *std::min_element(each.begin(), each.end()));
  return summary(times, std::move(each), std::move(stages));
}

// And what one item of them took, where that was tried.
struct FoundShapes {
  Shapes shapes;
  std::optional<BatchResult> first;
};

absl::StatusOr<FoundShapes> find_shapes(Executor& executor, const Variant& variant,
                                        const MeasureOptions& options) {
  const Shapes& given = options.shapes;
  RETURN_IF_ERROR(check_shapes(variant, given));
  if (!options.made.empty()) return FoundShapes{item_shapes(variant, given, 1), std::nullopt};
  absl::Status refused;
  for (int64_t free_dimension : {1, 32}) {
    Shapes shapes = item_shapes(variant, given, free_dimension);
    RETURN_IF_ERROR(check_shapes(variant, shapes));
    if (input_bytes(variant, shapes, 1) > kMostInputBytes) {
      return invalid("the inputs of one item take more than {} MiB", kMostInputBytes / (1 << 20));
    }
    auto ran = run_once(executor, variant, shapes, 1);
    if (ran.ok()) return FoundShapes{std::move(shapes), *std::move(ran)};
    refused = ran.status();
    if (shapes.empty()) break;
  }
  return refused;
}

std::vector<uint32_t> sizes_up_to(uint32_t max_batch) {
  std::vector<uint32_t> sizes;
  for (uint32_t size = 1; size < max_batch; size *= 2) sizes.push_back(size);
  sizes.push_back(max_batch);
  return sizes;
}

}  // namespace

absl::StatusOr<Profile> measure(Executor& executor, const Variant& variant,
                                const MeasureOptions& options,
                                absl::FunctionRef<void(double)> progress) {
  Profile profile{.version = 1, .model = variant.model, .model_version = variant.version};
  ASSIGN_OR_RETURN(FoundShapes found, find_shapes(executor, variant, options));
  profile.shapes = std::move(found.shapes);
  const uint32_t most = variant.signature.max_batch;
  const std::vector<uint32_t> sizes =
      sizes_up_to(options.max_batch == 0 ? most : std::min(options.max_batch, most));
  Time end = monotonic_now() + std::min(options.all, Duration::seconds(86'400));
  for (const auto& [_, took] : options.made) end = end - took.front();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && monotonic_now() >= end) break;
    if (input_bytes(variant, profile.shapes, sizes[i]) > kMostInputBytes) break;
    std::optional<BatchResult> first;
    if (i == 0 && sizes[i] == 1) first = std::exchange(found.first, std::nullopt);
    ASSIGN_OR_RETURN(profile.batches[sizes[i]],
                     measure_size(executor, variant, profile.shapes, sizes[i], options,
                                  std::move(first), [&](double share) {
                                    progress((static_cast<double>(i) + share) /
                                             static_cast<double>(sizes.size()));
                                  }));
  }
  fit(profile);
  return profile;
}

}  // namespace fermata::engine
