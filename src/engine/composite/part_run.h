#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "engine/catalog.h"
#include "policy/service.h"

namespace fermata::engine {

// How a query of an ensemble was answered.
struct EnsembleRun {
  policy::Concluded how;  // by which of its base models
  policy::Difficulty difficulty{.bin = policy::Difficulty::kUnknown};
};

// How it was decided that a batch runs for a task, or that its evidence answers.
struct Choice {
  Time start;                   // of the batch, as it was expected then
  std::optional<double> price;  // as Batch has it
  bool joined = false;          // a batch that had room
  bool at_last = false;         // as Concluded has it
};

// How one part ran.
struct PartRun {
  // What ran, alive for the call; null: the evidence answered. Of an ensemble, what answered first.
  const Variant* variant = nullptr;
  uint32_t worker = 0, worker_type = 0, batch_items = 0;
  Time started;
  Duration input, run, output;
  Choice choice;
  std::optional<EnsembleRun> ensemble;
  std::string stages;  // of a pipeline, as Explanation has them

  Time ended() const { return started + input + run + output; }
};

}  // namespace fermata::engine
