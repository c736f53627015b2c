#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/trial/trial.h"

namespace fermata::engine {

// What goes between a server and the child that tries a model for it.

struct TrialQuestion {
  TrialOptions options;
  ChildLimits limits;
};
absl::StatusOr<std::string> write_question(const TrialOptions& options, const TrialLimits& limits);
absl::StatusOr<TrialQuestion> read_question(std::string_view text);

// A line each, with its newline.
std::string face_line(const FileSignature& face);
std::string rows_line(const RowTrial& rows);
std::string profile_line(const absl::StatusOr<Profile>& profile);

// Of a child that may have ended early: without a face nothing was read.
struct TrialAnswer {
  Trial trial;
  bool has_face = false;
};
absl::StatusOr<TrialAnswer> read_answer(std::string_view lines);

}  // namespace fermata::engine
