#include "engine/trial/trial.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <istream>
#include <iterator>
#include <ostream>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/machine.h"
#include "engine/trial/first_runs.h"
#include "engine/trial/trial_document.h"
#include "model/dynamic_network.h"

namespace fermata::engine {
namespace {

// Beyond a batch of two, which is tried whatever it takes.
constexpr int64_t kLoadingsOfBudget = 10;
constexpr Duration kLeastBudget = Duration::millis(30);

absl::StatusOr<FileSignature> face_of(const TrialOptions& options,
                                      const std::vector<FileSignature>& files) {
  ASSIGN_OR_RETURN(const auto network, dynamic_network(options.config));
  if (!network) return files.front();
  absl::StatusOr<FileSignature> face = face_of_stages(*network, files);
  if (!face.ok()) return invalid("{}: {}", options.file, message(face.status()));
  return face;
}

// A variant that its executor can run; its configuration is right.
class Tried {
 public:
  Tried(const TrialOptions& options, const FileSignature& face) : options_(options), face_(face) {
    variant_.id = VariantId(0);
    variant_.file = options.file;
    variant_.model = options.model;
    variant_.version = options.version;
    variant_.tried = true;
  }

  // Whether it does what the configuration says is for the server to say.
  bool complete(inference::ModelConfig config) {
    auto whole =
        complete_model_config(std::move(config), face_, options_.model, options_.default_max_batch);
    if (!whole.ok()) return false;
    variant_.config = *std::move(whole);
    lower_max_batch(variant_.config, options_.max_batch);
    variant_.signature = signature_of(variant_.config, face_);
    return true;
  }

  const Variant& variant() const { return variant_; }

 private:
  const TrialOptions& options_;
  const FileSignature& face_;
  Variant variant_;
};

// OK where it failed for something else.
absl::Status beyond_limit(const absl::Status& failed, const TrialQuestion& question) {
  const absl::Status limited = of_limited(failed, question.limits.memory_mb);
  return limited == failed ? absl::OkStatus() : limited;
}

// As far as the files and the configuration go together, a line for each thing that is known.
absl::Status try_here(const TrialQuestion& question, std::ostream& out) {
  const TrialOptions& options = question.options;
  ASSIGN_OR_RETURN(const auto executors, make_executors({.types = {options.worker}}));
  FirstRuns first_runs(resident_mb());
  Variant opened;
  opened.id = VariantId(0);
  opened.file = options.file;
  opened.config = options.config;
  ASSIGN_OR_RETURN(const std::vector<FileSignature> files, executors->open(opened));
  first_runs.loaded(resident_mb());
  ASSIGN_OR_RETURN(const FileSignature face, face_of(options, files));
  out << face_line(face) << std::flush;
  Tried tried(options, face);
  if (!options.run || !tried.complete(options.config)) return absl::OkStatus();
  const std::shared_ptr<Executor> executor = executors->make();
  RETURN_IF_ERROR(executor->load(std::make_shared<const Variant>(tried.variant())));
  const Duration budget = std::max(kLeastBudget, first_runs.loading() / kLoadingsOfBudget);
  absl::StatusOr<RowTrial> rows = try_rows(*executor, tried.variant(), options.shapes, budget);
  if (!rows.ok()) {
    RETURN_IF_ERROR(beyond_limit(rows.status(), question));
    rows = RowTrial{RowTrial::Verdict::kUntried, std::string(message(rows.status()))};
  }
  out << rows_line(*rows) << std::flush;
  const bool wrong =
      rows->verdict == RowTrial::Verdict::kTogether && options.config.has_max_batch_size();
  if (!options.measure || wrong || !tried.complete(tried_config(options.config, *rows))) {
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(executor->load(std::make_shared<const Variant>(tried.variant())));
  absl::StatusOr<Profile> profile = first_runs.measure(*executor, tried.variant(), rows->runs);
  if (!profile.ok()) RETURN_IF_ERROR(beyond_limit(profile.status(), question));
  out << profile_line(profile);
  return absl::OkStatus();
}

}  // namespace

inference::ModelConfig tried_config(inference::ModelConfig config, const RowTrial& rows) {
  const bool apart =
      rows.verdict == RowTrial::Verdict::kApart || rows.verdict == RowTrial::Verdict::kNotAsked;
  if (!apart && !config.has_max_batch_size()) config.set_max_batch_size(0);
  return config;
}

absl::Status answer_trial(std::istream& in, std::ostream& out) {
  const std::string text(std::istreambuf_iterator<char>(in), {});
  ASSIGN_OR_RETURN(const TrialQuestion question, read_question(text));
  (void)limit_this_process(question.limits);  // as far as the system can
  return of_limited(try_here(question, out), question.limits.memory_mb);
}

absl::StatusOr<Trial> try_model(const std::string& program, const TrialOptions& options,
                                const TrialLimits& limits, Nursery* nursery) {
  ASSIGN_OR_RETURN(const std::string asked, write_question(options, limits));
  ASSIGN_OR_RETURN(const ChildResult child,
                   run_child({program, "try-model"}, limits.time, asked, nursery));
  auto answer = read_answer(child.output);
  const bool opened = answer.ok() && answer->has_face;
  const char* what = opened ? "its first runs" : "reading it";
  if (child.timed_out || child.signal == SIGXCPU) {
    return invalid("{}: {} took longer than {:.0f} s", options.file, what, limits.time.seconds());
  }
  if (child.signal != 0) {
    return invalid("{}: {} crashed ({}){}", options.file, what, strsignal(child.signal),
                   opened ? "" : ": not a sound model");
  }
  if (child.exit_code != 0 && opened) return invalid("{}: {}", options.file, child.error);
  if (child.exit_code != 0) {
    return invalid(
        "{}", child.error.empty() ? fmt::format("{}: cannot be read", options.file) : child.error);
  }
  RETURN_IF_ERROR(answer.status());
  return std::move(answer->trial);
}

}  // namespace fermata::engine
