#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/catalog.h"
#include "engine/options.h"

namespace fermata::tune {

// What a service is, for those who look at it.
struct ServiceFacts {
  enum class Kind : uint8_t { kModel, kVariants, kEnsemble, kPipeline, kStream };
  std::string name;
  Kind kind = Kind::kModel;
  std::optional<Duration> slo;
  std::vector<std::string> members;  // of a model: its own name, where that is another
  std::optional<double> accuracy;    // profiled, of a model
  bool configured = false;           // else it is a model of the repository under its own name
  bool ready = true;
  bool operator==(const ServiceFacts&) const = default;
};
std::string_view name(ServiceFacts::Kind kind);

// All that clients may call now, by name.
std::vector<ServiceFacts> facts_of(const engine::EngineOptions& options,
                                   const engine::Catalog& catalog);

// The policies under which what is configured can be simulated.
std::vector<std::string> schedulers_for(const engine::EngineOptions& options);

// A subset of an ensemble's models, joined by +, as replies have it.
std::string subset_name(const std::vector<std::string>& models, uint32_t subset);

}  // namespace fermata::tune
