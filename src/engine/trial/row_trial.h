#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "engine/execute/executor.h"
#include "engine/trial/made_up.h"
#include "engine/trial/profiler.h"

namespace fermata::engine {

// Whether the items of a batch are answered as each of them alone is.
struct RowTrial {
  enum class Verdict : uint8_t {
    kNotAsked,  // it has no batches of two
    kApart,     // none changes the answer to another
    kSlightly,  // they change each other's numbers by a few percent, as one scale for all does
    kTogether,  // they change them by more, or do not run together
    kUntried,   // made-up inputs do not tell
  };
  Verdict verdict = Verdict::kNotAsked;
  std::string seen;  // which output, of which batch, how far; or why it could not be tried
  bool ran = false;  // on some made-up input
  MadeRuns runs;     // that were made, where no input has free dimensions
};

// Runs a loaded variant that batches on different made-up items, alone and in batches of several
// sizes, and compares the answers, each within what the order of additions may change: where the
// batch is of the same size and an item has the same place in it, hardly at all. A batch of two is
// always compared, others while `budget` of processor time lasts. An item that takes as long as a
// model is measured when it is loaded is not tried. `given`: shapes of items to try first. Blocks.
// RESOURCE_EXHAUSTED where memory is missing.
absl::StatusOr<RowTrial> try_rows(Executor& executor, const Variant& variant, const Shapes& given,
                                  Duration budget);

}  // namespace fermata::engine
