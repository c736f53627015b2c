#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/confusion.h"
#include "model/latency.h"
#include "model/tensor.h"

namespace fermata {

// What was measured of batches of one size, in milliseconds.
struct BatchProfile {
  uint32_t runs = 0;
  double p50_ms = 0, p90_ms = 0, p99_ms = 0, mean_ms = 0;
  std::vector<double> stages_ms;  // of a dynamic network that no item leaves early: the medians
};

// A fit of the median over the batch size that has the least relative residuals;
// `error` is their root mean square.
struct LinearFit {
  LinearLatency latency;
  double error = 0;
};
struct QuadraticFit {
  QuadraticLatency latency;
  double error = 0;
};

// How often a classifier is right, as measured on labelled data, or as its owner states it.
struct AnswerProfile {
  std::optional<double> accuracy;
  std::vector<std::optional<double>> recall;  // by class, unknown for one without an example
  Confusion confusion;                        // of no class where it was not measured
};
AnswerProfile answers_of(Confusion confusion);

// A versioned document beside the model, profile.json.
struct Profile {
  static constexpr int kFormat = 1;
  uint64_t version = 0;  // counts measurements of this model; 0: never measured
  std::string model, model_version;
  std::string machine;  // what it was measured on, for people
  std::string provider = "cpu";
  uint32_t threads = 1;
  std::map<std::string, Shape> shapes;       // per item, of inputs with free dimensions
  std::map<uint32_t, BatchProfile> batches;  // by items
  LinearFit linear;
  QuadraticFit quadratic;  // falls back to the line where there are fewer than three sizes
  double load_ms = 0;
  // What a worker needs to run it, and how much of that it needs while it does not; MiB.
  double memory_mb = 0, static_mb = 0;
  AnswerProfile answers;

  bool measured() const { return !batches.empty(); }
};

// Fits both curves to the medians of `batches`. One size: a constant line through it.
void fit(Profile& profile);

// `quantile` in [0.5, 0.99], linear between the profiled ones.
TableLatency latency_at(const Profile& profile, double quantile);

absl::StatusOr<Profile> parse_profile(std::string_view json, std::string_view source);
std::string to_json(const Profile& profile);  // ends in a newline
absl::StatusOr<Profile> read_profile(const std::filesystem::path& file);
// Replaces the file in one step.
absl::Status write_profile(const Profile& profile, const std::filesystem::path& file);

}  // namespace fermata
