#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/fixture.h"
#include "estimate/difficulty_document.h"

namespace fermata::engine {

// fit/profile.json of an ensemble whose models' outputs are `width` values, of which all queries
// are equally difficult; `utilities` by subset.
inline void write_difficulty(const TemporaryFolder& folder, std::vector<std::string> models,
                             size_t width, std::vector<double> utilities) {
  estimate::DifficultyProfile profile;
  profile.name = "fit";
  profile.models = std::move(models);
  profile.aggregator.prediction = estimate::Prediction::kRegression;
  profile.width = width;
  profile.queries = 1;
  for (auto* measure : {&profile.discrepancy, &profile.agreement}) {
    measure->norms.assign(measure == &profile.agreement ? 1 : profile.models.size(), 1);
    measure->profile.counts = {1};
    measure->profile.utilities = {utilities};
  }
  folder.write("fit/profile.json", estimate::difficulty_json(profile).dump());
}

}  // namespace fermata::engine
