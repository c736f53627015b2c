#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "engine/request.h"
#include "engine/schedule/job.h"
#include "engine/services/pipeline.h"
#include "engine/services/trees.h"

namespace fermata::engine {

// The data of a node of the tree: what its children get, what they gave, and what is made of it.
struct Trees::Node {
  enum Kind : uint8_t {
    kStages,  // of a pipeline
    kChoice,  // members of variants or an ensemble
    kItems,   // of one request, that run apart
  };
  struct Child {
    JobId id;
    std::vector<Tensor> outputs;
    Explanation why;
    std::string error;  // where it was rejected or failed
    Time started, ended = Time::infinite();
    Duration budget;
    uint32_t items = 0, made = 0;
    bool answered = false;
  };
  Kind kind = kStages;
  std::shared_ptr<Job> job;  // whose request this is; null: of a part of one, with these:
  std::vector<Tensor> inputs;
  Time arrival;
  bool explain = false;
  JobId root;  // the client's request
  std::shared_ptr<const Pipeline> pipeline;
  const Pipeline::Stage* stage = nullptr;  // whose items run apart; null: those of a choice
  uint32_t option = policy::kAnyOption;    // of that stage
  std::vector<Child> children;
  std::vector<std::pair<uint32_t, Child>> tried;  // what was, of those that started again
  policy::Difficulty difficulty{.bin = policy::Difficulty::kUnknown};
  ReplyPart failure;  // of the child that ended it
  std::string failed_child;

  JobId whole() const {
    if (job == nullptr) return root;
    return job->request().parent.is_none() ? job->id() : job->request().parent;
  }
  const std::vector<Tensor>& given() const {
    return job != nullptr ? job->request().inputs : inputs;
  }
  void start(const policy::TreeDecisions::Started& started, Time now);
  // One for a part of its request.
  std::shared_ptr<Node> branch(Kind of, std::vector<Tensor> given, size_t parts, Time now) const;
  // How many items a stage has made, whose outputs then count them by their first dimension.
  static uint32_t make_items(const Pipeline::Stage& stage, Child& child);
  // Whether so many items are few enough for the stage.
  absl::Status check_items(uint32_t child, uint32_t items, uint32_t most_parts) const;
  // What the stage or member is asked.
  InferRequest request_for(uint32_t child, uint32_t option, Time now) const;
  // The stages that a stage which has been answered says are not wanted.
  std::vector<uint32_t> skipped_by(uint32_t child) const;
  // Whether clients get something that the stage gives.
  static bool is_answer(const Pipeline& pipeline, uint32_t stage);
  // What the stages gave that this one has read, where nobody else is to read it.
  void let_go_before(uint32_t child);
  // Item `at` of what was given, with or without the dimension of items.
  absl::StatusOr<std::vector<Tensor>> item(uint32_t at, bool keep_dimension) const;
  // The answer of a pipeline, of one member, or of items that ran apart.
  absl::StatusOr<std::vector<Tensor>> outputs() const;
  Join answers() const;
  PartRun run(Time now) const;
  // Of items that ran apart: from the first's start to the last's end, and the sums.
  void sum_up(Explanation& why) const;
  bool explained() const { return job != nullptr ? job->request().explain : explain; }
  // A row for each time that a stage was started, and one for the stage before which the request
  // was `infeasible`; where that was asked, else empty.
  std::string explain_stages(Time now, uint32_t infeasible = policy::kNoChild) const;

 private:
  Json row_of(uint32_t at, const Child& child, Time now) const;
  const Tensor* find(const Pipeline::Source& from) const;
};

// A service that the tree knows.
struct Trees::Known {
  std::shared_ptr<const Pipeline> pipeline;
  ServiceId service, items;    // the latter: of a choice, its items apart
  std::vector<ServiceId> own;  // that go with it
  std::vector<ServiceId> stages;
  uint64_t users = 0;  // nodes under way, and services that contain it
  // Of a pipeline: by stage, whether it is an operator that no model runs before and other stages
  // read; the only one that a request begins with, if there is one; and how many runs of it keep
  // the workers busy, with the next batch of each.
  std::vector<bool> ahead;
  std::optional<size_t> first;
  uint32_t busy_runs = 0;
};

}  // namespace fermata::engine
