#include "simulate/latency_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "model/latency_document.h"

namespace fermata::simulate {
namespace {

constexpr double kQuantile = 0.9;  // `latency_quantile` of a server that says nothing else

std::optional<Profile> read_profile_file(Reader value) {
  const std::string file = value.string();
  if (file.empty()) return std::nullopt;
  auto profile = fermata::read_profile(file);
  if (!profile.ok()) {
    value.fail(fmt::format("a profile.json of `fermata profile` ({})", message(profile.status())));
  } else if (!profile->measured()) {
    value.fail("a profile that measured batches");
  } else {
    return *std::move(profile);
  }
  return std::nullopt;
}

std::vector<Profile> read_profiles(Reader value, std::span<const std::string> types) {
  std::vector<Profile> profiles;
  if (!value.is_object()) {
    if (auto profile = read_profile_file(value)) profiles.push_back(*std::move(profile));
    return profiles;
  }
  const auto files = value.map();
  for (const auto& [name, _] : files) {
    if (std::find(types.begin(), types.end(), name) != types.end()) continue;
    value.fail(fmt::format("a type of the workers as its name, not '{}'", name));
  }
  for (const std::string& type : types) {
    const auto file =
        std::find_if(files.begin(), files.end(), [&](const auto& f) { return f.first == type; });
    if (file == files.end()) {
      value.fail(fmt::format("a profile for worker type '{}' too", type));
    } else if (auto profile = read_profile_file(file->second)) {
      profiles.push_back(*std::move(profile));
    }
  }
  return profiles;
}

}  // namespace

RunTimes read_run_times(ObjectReader& fields, std::span<const std::string> worker_types) {
  RunTimes times;
  const Reader latency = fields["latency_ms"], profile = fields["profile"];
  if (!profile.present()) {
    times.latency = read_latency_by_type(latency, worker_types);
  } else {
    if (latency.present()) profile.fail("none beside latency_ms");
    for (Profile& each : read_profiles(profile, worker_types)) {
      times.latency.emplace_back(latency_at(each, kQuantile));
      if (!times.profile) times.profile = std::move(each);
    }
    if (times.latency.empty()) times.latency = {LinearLatency{0, 1}};  // which has been said
  }
  times.latency.resize(std::max<size_t>(worker_types.size(), 1), times.latency.front());
  return times;
}

}  // namespace fermata::simulate
