#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "engine/confine/child.h"

namespace fermata::engine::apart {

struct ModelProcessOptions {
  ChildLimits limits;
  std::string backend;               // whose program its standard input is; empty: nobody's
  std::vector<std::string> command;  // another program that is it; empty: this one
};

// What `fermata model-process` does: takes the limits on, then loads and runs what the server at
// the other end of the two file descriptors says (layout.h, docs/processes.md), until it closes
// them.
absl::Status be_model_process(const ModelProcessOptions& options);

// What `fermata nursery` prepares: opens a model, said as prepared_message() has it (control.h),
// for the processes that will be copies of this one and run it.
absl::Status open_for_copies(std::string_view text);

// What `fermata model-process --check` does: whether this system has what such processes need. For
// a process that ends then.
absl::Status check_model_process();

}  // namespace fermata::engine::apart
