#include "engine/services/tree_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "base/document.h"
#include "base/status.h"
#include "engine/composite/composite.h"
#include "engine/execute/gather.h"

namespace fermata::engine {
namespace {

// Of no items.
Tensor empty_tensor(const TensorSpec& spec) {
  Tensor tensor{.name = spec.name, .datatype = spec.datatype, .shape = {0}};
  for (const int64_t dim : spec.dims) tensor.shape.push_back(std::max<int64_t>(dim, 0));
  return tensor;
}

// Of a batch, in which every item made equally many: all that it made, one after the other.
void flatten_items(std::vector<Tensor>& outputs) {
  for (Tensor& tensor : outputs) {
    if (tensor.shape.size() < 2) continue;
    tensor.shape[1] *= tensor.shape[0];
    tensor.shape.erase(tensor.shape.begin());
  }
}

}  // namespace

std::shared_ptr<Trees::Node> Trees::Node::branch(Kind of, std::vector<Tensor> given, size_t parts,
                                                 Time now) const {
  auto node = std::make_shared<Node>();
  node->kind = of;
  node->inputs = std::move(given);
  node->arrival = now;
  node->explain = explained();
  node->root = whole();
  node->pipeline = pipeline;
  node->children.resize(parts);
  return node;
}

uint32_t Trees::Node::make_items(const Pipeline::Stage& stage, Child& child) {
  if (!stage.fan_out.empty()) {
    if (stage.batches) flatten_items(child.outputs);
    const auto of = absl::c_find_if(child.outputs, [&](const Tensor& tensor) {
      return tensor.name == stage.fan_out && !tensor.shape.empty();
    });
    return of == child.outputs.end() ? 0 : static_cast<uint32_t>(of->shape[0]);
  }
  if (stage.items_first) {
    for (Tensor& tensor : child.outputs) tensor.shape.insert(tensor.shape.begin(), 1);
  }
  return child.items;
}

const Tensor* Trees::Node::find(const Pipeline::Source& from) const {
  const auto& tensors =
      from.stage == Pipeline::Source::kRequest ? given() : children[from.stage].outputs;
  const auto it =
      absl::c_find_if(tensors, [&](const Tensor& tensor) { return tensor.name == from.tensor; });
  return it == tensors.end() ? nullptr : &*it;
}

std::vector<uint32_t> Trees::Node::skipped_by(uint32_t child) const {
  std::vector<uint32_t> skipped;
  if (kind != kStages) return skipped;
  for (uint32_t s = child + 1; s < pipeline->stages.size(); ++s) {
    const auto& when = pipeline->stages[s].when;
    if (!when || when->from.stage != child) continue;
    const Tensor* tensor = find(when->from);
    if (tensor == nullptr || !when->holds(*tensor, pipeline->stages[child].gives_items()))
      skipped.push_back(s);
  }
  return skipped;
}

void Trees::Node::start(const policy::TreeDecisions::Started& started, Time now) {
  Child& child = children[started.child];
  if (!child.id.is_none()) tried.emplace_back(started.child, std::move(child));
  child = {.id = started.id, .started = now, .budget = started.due - now, .items = started.items};
}

absl::Status Trees::Node::check_items(uint32_t child, uint32_t items, uint32_t most_parts) const {
  const Pipeline::Stage& own = pipeline->stages[child];
  if (!own.batches && !own.one_by_one) return absl::OkStatus();
  return check_parts(items, {own.one_by_one ? 1 : own.part_items, most_parts});
}

InferRequest Trees::Node::request_for(uint32_t child, uint32_t option, Time now) const {
  const Pipeline::Stage& own = pipeline->stages[child];
  InferRequest request{.service = own.route_of(option), .arrival = now, .explain = explained()};
  for (const Pipeline::Input& input : own.inputs) {
    const Tensor* tensor = find(input.from);
    if (tensor == nullptr) continue;  // optional, or admission says that it is missing
    request.inputs.push_back(*tensor);
    request.inputs.back().name = input.name;
  }
  request.outputs = own.outputs;
  request.readers = own.readers;
  return request;
}

bool Trees::Node::is_answer(const Pipeline& pipeline, uint32_t stage) {
  return absl::c_any_of(pipeline.outputs, [stage](const Pipeline::Output& output) {
    return absl::c_any_of(output.from, [stage](const auto& from) { return from.stage == stage; });
  });
}

// A picture goes when what it is made into is there.
void Trees::Node::let_go_before(uint32_t child) {
  if (kind != kStages) return;
  for (const uint32_t before : pipeline->stages[child].after) {
    bool wanted = is_answer(*pipeline, before);
    for (size_t s = before + 1; s < children.size() && !wanted; ++s) {
      wanted = absl::c_binary_search(pipeline->stages[s].after, before) && !children[s].answered;
    }
    if (!wanted) children[before].outputs.clear();
  }
}

absl::StatusOr<std::vector<Tensor>> Trees::Node::item(uint32_t at, bool keep_dimension) const {
  std::vector<Tensor> items = given();
  for (Tensor& tensor : items) {
    ASSIGN_OR_RETURN(tensor.data, rows(tensor, at, 1));
    if (keep_dimension) {
      tensor.shape[0] = 1;
    } else {
      tensor.shape.erase(tensor.shape.begin());
    }
  }
  return items;
}

absl::StatusOr<std::vector<Tensor>> Trees::Node::outputs() const {
  if (kind == kItems) return answers().concatenate();
  if (kind == kChoice) return answers().pass_on_first();
  const std::vector<std::string>& wanted = job->request().outputs;
  std::vector<Tensor> result;
  for (const Pipeline::Output& output : pipeline->outputs) {
    if (!wanted.empty() && !absl::c_linear_search(wanted, output.spec.name)) continue;
    const Tensor* tensor = nullptr;
    for (const Pipeline::Source& from : output.from) {
      if (tensor == nullptr) tensor = find(from);
    }
    result.push_back(tensor == nullptr ? empty_tensor(output.spec) : *tensor);
    result.back().name = output.spec.name;
  }
  return result;
}

Join Trees::Node::answers() const {
  Join answers(children.size());
  for (size_t c = 0; c < children.size(); ++c) {
    if (children[c].answered) answers.take(c, children[c].outputs);
  }
  return answers;
}

PartRun Trees::Node::run(Time now) const {
  PartRun run{.variant = pipeline->public_model.get(), .started = now};
  for (size_t c = 0; c < children.size(); ++c) {
    const Child& child = children[c];
    if (!child.answered) continue;
    run.started = std::min(run.started, child.started + child.why.queueing);
    if (kind == kChoice) {
      run.variant = pipeline->choice->variants[c].get();
      run.worker = child.why.worker;
      run.batch_items = child.why.batch_items;
    }
  }
  run.run = now - run.started;
  run.stages = explain_stages(now);
  return run;
}

void Trees::Node::sum_up(Explanation& why) const {
  Time first = Time::infinite(), last = arrival;
  for (const Child& child : children) {
    if (!child.answered) continue;
    first = std::min(first, child.started + child.why.queueing);
    last = std::max(last, child.ended);
    why.items_queueing = why.items_queueing + child.why.queueing;
    why.items_run = why.items_run + child.why.run;
  }
  if (first.is_infinite()) return;
  why.queueing = first - arrival;
  why.run = last - first;
}

// What waited without running, or nobody knows whether it ran, has waited all the time.
Json Trees::Node::row_of(uint32_t at, const Child& child, Time now) const {
  const Explanation& why = child.why;
  const Time deadline = job == nullptr ? Time::infinite() : job->deadline();
  const Time from = job == nullptr ? arrival : job->request().arrival;
  const bool open = child.ended.is_infinite();
  const Time ended = open ? now : child.ended;
  const bool ran = !open && (child.answered || why.outcome == Outcome::kFailed ||
                             (why.outcome == Outcome::kInvalid && why.batch_items > 0));
  Json row = {{"stage", pipeline->stages[at].name},
              {"outcome", name(open ? Outcome::kCancelled : why.outcome)},
              {"variant", why.variant},
              {"items", child.items},
              {"batch_size", why.batch_items},
              {"start_ms", (child.started - from).millis()},
              {"wait_ms", (ran ? why.queueing : ended - child.started).millis()},
              {"run_ms", (ran ? why.run : Duration()).millis()}};
  if (child.answered && !pipeline->stages[at].fan_out.empty()) row["made"] = child.made;
  if (!deadline.is_infinite()) {
    row["budget_ms"] = child.budget.millis();
    row["remaining_before_ms"] = (deadline - child.started).millis();
    row["remaining_ms"] = (deadline - ended).millis();
  }
  if (why.items_run > Duration()) {
    row["items_wait_ms"] = why.items_queueing.millis();
    row["items_run_ms"] = why.items_run.millis();
  }
  if (!child.error.empty()) row["error"] = child.error;
  if (!why.reason.empty()) row["reason"] = why.reason;
  if (!why.alternatives.empty()) row["expected_accuracy"] = why.expected_accuracy;
  if (!why.stages.empty()) row["stages"] = Json::parse(why.stages);
  return row;
}

std::string Trees::Node::explain_stages(Time now, uint32_t infeasible) const {
  if (!explained() || kind == kItems) return {};
  Json list = Json::array();
  for (uint32_t c = 0; c < children.size(); ++c) {
    for (const auto& [at, child] : tried) {
      if (at == c) list.push_back(row_of(c, child, now));
    }
    if (!children[c].id.is_none()) list.push_back(row_of(c, children[c], now));
    if (c != infeasible) continue;
    list.push_back(row_of(c,
                          {.started = now,
                           .ended = now,
                           .budget = job == nullptr ? Duration::infinite() : job->deadline() - now},
                          now));
    list.back()["outcome"] = "not_begun";
  }
  // A model's own error may quote what a client sent, which need not be UTF-8.
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fermata::engine
