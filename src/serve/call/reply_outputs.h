#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/byte_budget.h"
#include "engine/request.h"
#include "serve/call/infer_call.h"
#include "serve/call/shared_memory.h"

namespace fermata::serve {

// One output as it goes out, whichever codec writes it.
struct ReadyOutput {
  Tensor tensor;
  bool binary = false;                   // where a codec has a choice
  const RegionPlace* written = nullptr;  // its data is there, not in the reply; of the wishes
};

// The outputs in the order asked for, classified or written to shared memory
// where that was asked. INVALID_ARGUMENT where one cannot be given like that. What is made for it
// is held of the budget of `held`, as long as it is there: RESOURCE_EXHAUSTED.
absl::StatusOr<std::vector<ReadyOutput>> ready_outputs(std::vector<Tensor> outputs,
                                                       const ReplyWishes& wishes,
                                                       const SharedMemory& regions,
                                                       const HeldBytes& held = {});

// Why the reply is what it is, as parameters of it, in microseconds.
// Valid as long as both.
std::vector<std::pair<std::string_view, ParameterValue>> explain(const engine::Explanation& why,
                                                                 const ReplyWishes& wishes);

}  // namespace fermata::serve
