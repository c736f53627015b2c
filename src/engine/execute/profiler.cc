#include "engine/execute/profiler.h"

#include <algorithm>

#include "base/clock.h"
#include "base/histogram.h"
#include "base/status.h"

namespace fermata::engine {
namespace {

using Shapes = std::map<std::string, Shape>;

// The most that the zeros of one batch may take: a hostile file promises any shape.
constexpr double kMostInputBytes = 1 << 30;

const Shape& item_shape(const TensorSpec& spec, const Shapes& shapes) {
  const auto it = shapes.find(spec.name);
  return it == shapes.end() ? spec.dims : it->second;
}

double input_bytes(const Variant& variant, const Shapes& shapes, uint32_t items) {
  double sum = 0;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    double bytes = items * static_cast<double>(zero_size(spec.datatype));
    for (int64_t dim : item_shape(spec, shapes)) bytes *= static_cast<double>(dim);
    sum += bytes;
  }
  return sum;
}

// Runs one batch of one part and waits for it. No item leaves it early: the worst case counts.
absl::StatusOr<BatchResult> run_once(Executor& executor, const Variant& variant,
                                     const Shapes& shapes, uint32_t items) {
  std::vector<Tensor> inputs;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    inputs.push_back(zeros(spec, item_shape(spec, shapes), variant.signature.batches ? items : 0));
  }
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
                                          absl::FunctionRef<void(double)> progress) {
  RETURN_IF_ERROR(run_once(executor, variant, shapes, items).status());
  Histogram times;
  std::vector<Duration> each;
  std::vector<std::vector<Duration>> stages;
  const Time end = monotonic_now() + options.each;
  while (each.empty() || (each.size() < options.runs && monotonic_now() < end)) {
    ASSIGN_OR_RETURN(const BatchResult result, run_once(executor, variant, shapes, items));
    times.record(result.total());
    each.push_back(result.total());
    stages.resize(result.stages.size());
    for (size_t s = 0; s < stages.size(); ++s) stages[s].push_back(result.stages[s].took);
    progress(static_cast<double>(each.size()) / options.runs);
  }
  if (options.fastest) each.assign(each.size(), *std::min_element(each.begin(), each.end()));
  return summary(times, std::move(each), std::move(stages));
}

// The shapes per item of inputs with free dimensions.
Shapes shapes_with(const Variant& variant, const Shapes& given, int64_t free_dimension) {
  Shapes shapes;
  for (const TensorSpec& spec : variant.signature.inputs) {
    if (spec.optional) continue;
    if (std::find(spec.dims.begin(), spec.dims.end(), -1) == spec.dims.end()) continue;
    Shape& shape = shapes[spec.name] = spec.dims;
    std::replace(shape.begin(), shape.end(), int64_t{-1}, free_dimension);
    for (const auto& warmup : variant.config.model_warmup()) {
      const auto it = warmup.inputs().find(spec.name);
      if (it != warmup.inputs().end() && it->second.dims_size() > 0) {
        shape.assign(it->second.dims().begin(), it->second.dims().end());
      }
    }
    if (const auto it = given.find(spec.name); it != given.end()) shape = it->second;
  }
  return shapes;
}

absl::Status check_shapes(const Variant& variant, const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    const TensorSpec* spec = variant.signature.input(name);
    if (spec == nullptr) return invalid("a shape is given for '{}', which is no input", name);
    const bool fits = std::equal(
        shape.begin(), shape.end(), spec->dims.begin(), spec->dims.end(),
        [](int64_t has, int64_t want) { return has >= 1 && (want == -1 || has == want); });
    if (!fits) {
      return invalid("the shape of input '{}' is {}, expected {} without free dimensions", name,
                     to_string(shape), to_string(spec->dims));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shapes> find_shapes(Executor& executor, const Variant& variant,
                                   const Shapes& given) {
  RETURN_IF_ERROR(check_shapes(variant, given));
  absl::Status refused;
  for (int64_t free_dimension : {1, 32}) {
    Shapes shapes = shapes_with(variant, given, free_dimension);
    RETURN_IF_ERROR(check_shapes(variant, shapes));
    if (input_bytes(variant, shapes, 1) > kMostInputBytes) {
      return invalid("the inputs of one item take more than {} MiB", kMostInputBytes / (1 << 20));
    }
    refused = run_once(executor, variant, shapes, 1).status();
    if (refused.ok()) return shapes;
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
  ASSIGN_OR_RETURN(profile.shapes, find_shapes(executor, variant, options.shapes));
  const uint32_t most = variant.signature.max_batch;
  const std::vector<uint32_t> sizes =
      sizes_up_to(options.max_batch == 0 ? most : std::min(options.max_batch, most));
  const Time end = monotonic_now() + std::min(options.all, Duration::seconds(86'400));
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i > 0 && monotonic_now() >= end) break;
    if (input_bytes(variant, profile.shapes, sizes[i]) > kMostInputBytes) break;
    ASSIGN_OR_RETURN(
        profile.batches[sizes[i]],
        measure_size(executor, variant, profile.shapes, sizes[i], options, [&](double share) {
          progress((static_cast<double>(i) + share) / static_cast<double>(sizes.size()));
        }));
  }
  fit(profile);
  return profile;
}

}  // namespace fermata::engine
