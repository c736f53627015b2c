#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/options.h"
#include "estimate/competence.h"
#include "estimate/difficulty.h"
#include "estimate/output_table.h"

namespace fermata::engine {

// What `fermata difficulty fit` wrote beside an ensemble, as the ensemble needs it. All of it
// blocks; INVALID_ARGUMENT, or why a file could not be read, names the file.

// profile.json, which has to be of the same base models and aggregation as the options.
absl::StatusOr<estimate::DifficultyProfile> read_difficulty_profile(const EnsembleOptions& options);
// What each base model gave for the queries of the history, in the options' order: at least one
// row, as many in each.
absl::StatusOr<std::vector<estimate::OutputTable>> read_history(const EnsembleOptions& options);
// Of dynamic selection among classifiers: a base model is right where it gives the ensemble's
// class.
absl::StatusOr<std::unique_ptr<estimate::Competence>> read_competence(
    const EnsembleOptions& options);

}  // namespace fermata::engine
