#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ids.h"
#include "engine/apart/process.h"
#include "engine/execute/executor.h"
#include "model/signature.h"

namespace fermata::engine::apart {

// A run of some parts that a process was asked for.
struct Asking {
  uint32_t slot = 0, number = 0;
  VariantId variant;
  const Signature* signature = nullptr;
  std::vector<std::string> outputs;  // names
  absl::Span<const BatchPart> parts;
};

// Takes what the process has answered out of its slot: adds a result for each part, or none where
// all of them fail together. A process that breaks the rules of the shared memory is killed.
absl::Status take_answer(ModelProcess& process, const Asking& asking, BatchResult& result);

}  // namespace fermata::engine::apart
