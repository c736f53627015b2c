#include "engine/services/pipeline.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status.h"
#include "engine/composite/variants_service.h"
#include "engine/schedule/job.h"
#include "engine/schedule/key_table.h"
#include "model/model_config.h"

namespace fermata::engine {
namespace {

using Source = Pipeline::Source;

bool agree(const Shape& given, const Shape& wanted) {
  return std::equal(given.begin(), given.end(), wanted.begin(), wanted.end(),
                    [](int64_t a, int64_t b) { return a == b || a == -1 || b == -1; });
}

// Until it has run.
constexpr double kFirstOperatorMs = 1;

Pipeline::Stage stage_of(const std::string& name, std::shared_ptr<const operators::Operator> op) {
  Pipeline::Stage stage{.name = name};
  if (op->fans_out()) stage.fan_out = op->outputs().front().name;
  stage.latency = *LatencyTable::make(LinearLatency{0, kFirstOperatorMs}, 1);
  stage.op = std::move(op);
  return stage;
}

Signature signature_of(const operators::Operator& op) {
  Signature signature{.inputs = op.inputs(), .outputs = op.outputs()};
  if (!op.fans_out()) return signature;
  for (TensorSpec& output : signature.outputs) output.dims.insert(output.dims.begin(), -1);
  return signature;
}

class Maker {
 public:
  Maker(const ServiceOptions& options, const FindRoute& find, const FindCounters& counters,
        double quantile)
      : options_(options),
        own_(*options.pipeline),
        find_(find),
        counters_(counters),
        quantile_(quantile),
        made_(std::make_shared<Pipeline>()) {}

  absl::StatusOr<std::shared_ptr<const Pipeline>> make(VariantId id) {
    for (uint32_t s = 0; s < own_.stages.size(); ++s) RETURN_IF_ERROR(add_stage(s));
    if (first_ == nullptr) {
      return invalid("service '{}' has only operators, expected a stage with a service or a model",
                     options_.name);
    }
    auto public_model = make_public_model(options_.name, *first_, id);
    for (const Pipeline::Stage& stage : made_->stages) {
      for (const Pipeline::Input& input : stage.inputs) {
        if (input.from.stage == Source::kRequest) batches_ = batches_ || stage.batches;
      }
    }
    public_model->signature = {.batches = batches_};
    public_model->profile = {};
    for (Pipeline::Stage& stage : made_->stages) {
      if (stage.latency == nullptr) continue;
      public_model->profile.linear.latency.beta_ms += (*stage.latency)(1).millis();
    }
    for (uint32_t s = 0; s < own_.stages.size(); ++s) {
      RETURN_IF_ERROR(check_inputs(s, public_model->signature));
    }
    if (public_model->signature.inputs.empty()) {
      return invalid("service '{}': no stage reads the request", options_.name);
    }
    find_dimensions();
    RETURN_IF_ERROR(add_outputs(*public_model));
    set_signature(public_model->signature, public_model->config);
    name_outputs();
    count_readers(*made_);
    note_slo(*public_model);
    made_->public_model = std::move(public_model);
    return std::shared_ptr<const Pipeline>(made_);
  }

 private:
  // A tensor as it is between stages: of one item.
  struct Form {
    DataType datatype = DataType::kFp32;
    Shape dims;
  };

  void note_slo(Variant& public_model) const {
    const Duration path = fastest_path(*made_);
    if (!options_.slo || *options_.slo >= path) return;
    public_model.notes.push_back(fmt::format(
        "slo_ms is {:.6g}, its fastest path takes {:.6g} ms: requests without a timeout "
        "of their own are all rejected",
        options_.slo->millis(), path.millis()));
    spdlog::warn("service '{}': {}", options_.name, public_model.notes.back());
  }

  absl::Status add_stage(uint32_t s) {
    const PipelineOptions::Stage& wanted = own_.stages[s];
    if (wanted.op != nullptr) {
      made_->stages.push_back(stage_of(wanted.name, wanted.op));
      Pipeline::Stage& stage = made_->stages.back();
      stage.route = stage_route(options_.name, wanted.name);
      stage.counters = counters_(stage.route);
      signatures_.push_back(signature_of(*wanted.op));
    } else {
      RETURN_IF_ERROR(add_member(wanted));
    }
    Pipeline::Stage& stage = made_->stages.back();
    if (stage.fan_out.empty()) stage.fan_out = wanted.fan_out;
    for (const std::string& name : wanted.after) {
      const auto at = absl::c_find_if(own_.stages, [&](const auto& t) { return t.name == name; });
      stage.after.push_back(static_cast<uint32_t>(at - own_.stages.begin()));
    }
    absl::c_sort(stage.after);
    RETURN_IF_ERROR(find_condition(s));
    if (!wanted.fan_out.empty() && signature(s).output(wanted.fan_out) == nullptr) {
      return invalid("service '{}': stage '{}' has no output '{}' to fan out", options_.name,
                     wanted.name, wanted.fan_out);
    }
    return find_inputs(s);
  }

  absl::Status add_member(const PipelineOptions::Stage& wanted) {
    const std::shared_ptr<const Route> member = find_(wanted.service);
    if (member == nullptr) {
      return error(absl::StatusCode::kUnavailable,
                   "service '{}': its stage '{}', '{}', is not served", options_.name, wanted.name,
                   wanted.service);
    }
    made_->stages.push_back(stage_of(options_.name, wanted.name, *member, quantile_));
    if (own_.adapter && own_.adapter->dedicated) dedicate(made_->stages.back(), *member);
    signatures_.push_back(member->variant->signature);
    if (first_ == nullptr) first_ = member->variant;
    return absl::OkStatus();
  }

  void dedicate(Pipeline::Stage& stage, const Route& member) const {
    stage.dedicated = true;
    stage.part_items = 1;  // the plan says how many may go together
    if (stage.options.empty()) {
      const auto& model = member.variant->model;
      stage.options.push_back({model, stage_route(stage.route, model), 1, member.variant});
    }
    for (Pipeline::Option& option : stage.options) {
      const auto at = absl::c_find_if(own_.adapter->variants,
                                      [&](const auto& v) { return v.route == option.route; });
      FERMATA_CHECK(at != own_.adapter->variants.end());
      option.threads = at->threads;
      option.latency = believed_latency(*option.variant, quantile_, 1, at->type);
    }
  }

  absl::Status find_condition(uint32_t s) {
    const std::optional<Condition>& when = own_.stages[s].when;
    if (!when) return absl::OkStatus();
    const Source from = source_of(when->from, own_.stages);
    const TensorSpec* read =
        from.stage == Source::kRequest ? nullptr : signature(from.stage).output(from.tensor);
    if (read == nullptr || read->datatype == DataType::kBytes) {
      return invalid(
          "service '{}': stage '{}' runs when '{}', expected STAGE.TENSOR, numbers of "
          "an earlier stage",
          options_.name, own_.stages[s].name, when->from);
    }
    ASSIGN_OR_RETURN(const Form form, form_of(s, from));
    if (const absl::Status fits = check_condition(*when, form.dims); !fits.ok()) {
      return invalid("service '{}': stage '{}' runs when '{}': {}", options_.name,
                     own_.stages[s].name, when->from, message(fits));
    }
    made_->stages[s].when = Pipeline::When{from, *when};
    return absl::OkStatus();
  }

  const Signature& signature(uint32_t s) const { return signatures_[s]; }

  absl::Status find_inputs(uint32_t s) {
    const PipelineOptions::Stage& wanted = own_.stages[s];
    for (const auto& [name, from] : wanted.inputs) {
      if (signature(s).input(name) == nullptr) {
        return invalid("service '{}': stage '{}' has no input '{}'", options_.name, wanted.name,
                       name);
      }
    }
    for (const TensorSpec& input : signature(s).inputs) {
      const auto said = absl::c_find_if(wanted.inputs,
                                        [&](const auto& each) { return each.first == input.name; });
      if (said != wanted.inputs.end()) {
        made_->stages[s].inputs.push_back({input.name, source_of(said->second, own_.stages)});
        continue;
      }
      ASSIGN_OR_RETURN(Source from, guess(s, input));
      made_->stages[s].inputs.push_back({input.name, std::move(from)});
    }
    return absl::OkStatus();
  }

  // An output of that name of a stage before it, or its only one; of a first stage, the request's.
  absl::StatusOr<Source> guess(uint32_t s, const TensorSpec& input) const {
    const std::vector<uint32_t>& after = made_->stages[s].after;
    if (after.empty()) return Source{.tensor = input.name};
    for (const uint32_t before : after) {
      if (signature(before).output(input.name) != nullptr) return Source{before, input.name};
    }
    const auto& outputs = signature(after[0]).outputs;
    if (after.size() == 1 && outputs.size() == 1 && signature(s).inputs.size() == 1) {
      return Source{after[0], outputs[0].name};
    }
    return invalid("service '{}': stage '{}' does not say in `inputs` where '{}' comes from",
                   options_.name, own_.stages[s].name, input.name);
  }

  absl::StatusOr<Form> form_of(uint32_t s, const Source& from) const {
    const TensorSpec* output = signature(from.stage).output(from.tensor);
    if (output == nullptr) {
      return invalid("service '{}': stage '{}' has no output '{}', which '{}' reads", options_.name,
                     own_.stages[from.stage].name, from.tensor,
                     s < own_.stages.size() ? own_.stages[s].name : "outputs");
    }
    Form form{output->datatype, output->dims};
    if (made_->stages[from.stage].fan_out.empty()) return form;
    if (form.dims.empty()) {
      return invalid("service '{}': output '{}' of stage '{}' has no rows to fan out",
                     options_.name, from.tensor, own_.stages[from.stage].name);
    }
    form.dims.erase(form.dims.begin());
    return form;
  }

  absl::Status check_inputs(uint32_t s, Signature& seen) {
    for (const Pipeline::Input& input : made_->stages[s].inputs) {
      const TensorSpec& wanted = *signature(s).input(input.name);
      if (input.from.stage == Source::kRequest) {
        RETURN_IF_ERROR(add_request_tensor(s, input.from.tensor, wanted, seen));
        continue;
      }
      if (!absl::c_binary_search(made_->stages[s].after, input.from.stage)) {
        return invalid("service '{}': stage '{}' reads '{}' and is not after it", options_.name,
                       own_.stages[s].name, own_.stages[input.from.stage].name);
      }
      ASSIGN_OR_RETURN(const Form given, form_of(s, input.from));
      if (given.datatype != wanted.datatype || !agree(given.dims, wanted.dims)) {
        return invalid(
            "service '{}': input '{}' of stage '{}' is {} of shape {}, '{}.{}' gives {} of {}",
            options_.name, input.name, own_.stages[s].name, name(wanted.datatype),
            to_string(wanted.dims), own_.stages[input.from.stage].name, input.from.tensor,
            name(given.datatype), to_string(given.dims));
      }
    }
    return absl::OkStatus();
  }

  absl::Status add_request_tensor(uint32_t s, const std::string& tensor, const TensorSpec& wanted,
                                  Signature& seen) {
    if (const TensorSpec* known = seen.input(tensor); known != nullptr) {
      if (known->datatype == wanted.datatype && known->dims == wanted.dims) return absl::OkStatus();
      return invalid("service '{}': stages read '{}' of the request as {} of shape {} and {} of {}",
                     options_.name, tensor, name(known->datatype), to_string(known->dims),
                     name(wanted.datatype), to_string(wanted.dims));
    }
    TensorSpec spec = wanted;
    spec.name = tensor;
    spec.model_dims = spec.dims;
    spec.symbols.clear();  // another stage may mean something else by them
    seen.inputs.push_back(std::move(spec));
    if (made_->stages[s].batches) {
      seen.max_batch = std::max(seen.max_batch, signature(s).max_batch);
    }
    return absl::OkStatus();
  }

  absl::Status add_outputs(Variant& seen) {
    seen.labels.clear();
    const PipelineOptions::Tensors wanted = own_.outputs.empty() ? last_outputs() : own_.outputs;
    for (const auto& [name, text] : wanted) {
      const Source from = source_of(text, own_.stages);
      if (from.stage == Source::kRequest) {
        return invalid("service '{}': output '{}' is '{}', expected STAGE.TENSOR", options_.name,
                       name, text);
      }
      ASSIGN_OR_RETURN(Form form, form_of(static_cast<uint32_t>(own_.stages.size()), from));
      TensorSpec spec{name, form.datatype, form.dims, form.dims};
      const auto known = absl::c_find_if(
          made_->outputs, [&](const auto& output) { return output.spec.name == spec.name; });
      if (known != made_->outputs.end()) {
        if (const TensorSpec& first = known->spec;
            first.datatype != spec.datatype || !agree(first.dims, spec.dims)) {
          return invalid("service '{}': output '{}' is {} of shape {} or {} of {}", options_.name,
                         name, fermata::name(first.datatype), to_string(first.dims),
                         fermata::name(spec.datatype), to_string(spec.dims));
        }
        known->from.push_back(from);
        continue;
      }
      made_->outputs.push_back({spec, {from}});
      const Pipeline::Stage& stage = made_->stages[from.stage];
      if (!batches_ && stage.gives_items()) form.dims.insert(form.dims.begin(), -1);
      spec.dims = spec.model_dims = std::move(form.dims);
      if (stage.member != nullptr && stage.member->labels.contains(from.tensor)) {
        seen.labels[name] = stage.member->labels.at(from.tensor);
      }
      seen.signature.outputs.push_back(std::move(spec));
    }
    return absl::OkStatus();
  }

  PipelineOptions::Tensors last_outputs() const {
    PipelineOptions::Tensors all;
    std::vector<bool> is_read(own_.stages.size());
    for (const Pipeline::Stage& stage : made_->stages) {
      for (const uint32_t before : stage.after) is_read[before] = true;
    }
    const auto last = absl::c_count(is_read, false);
    for (uint32_t s = 0; s < own_.stages.size(); ++s) {
      if (is_read[s]) continue;
      for (const TensorSpec& output : signature(s).outputs) {
        const std::string path = own_.stages[s].name + "." + output.name;
        all.emplace_back(last == 1 ? output.name : path, path);
      }
    }
    return all;
  }

  // Which stages get, and give, a dimension of items that their members do not know.
  // A stage that does not batch and reads something by items runs for each apart; then all that it
  // reads is by items.
  void find_dimensions() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (uint32_t s = 0; s < made_->stages.size(); ++s) {
        Pipeline::Stage& stage = made_->stages[s];
        const bool apart = !stage.batches && reads_items(stage);
        const bool first = !stage.batches && stage.fan_out.empty() && (apart || read_by_items(s));
        changed = changed || apart != stage.one_by_one || first != stage.items_first;
        stage.one_by_one = apart;
        stage.items_first = first;
      }
    }
  }

  bool reads_items(const Pipeline::Stage& stage) const {
    return absl::c_any_of(stage.inputs, [this](const Pipeline::Input& input) {
      if (input.from.stage == Source::kRequest) return batches_;
      return made_->stages[input.from.stage].gives_items();
    });
  }

  bool read_by_items(uint32_t s) const {
    return absl::c_any_of(made_->stages, [s](const Pipeline::Stage& reader) {
      return (reader.batches || reader.one_by_one) &&
             absl::c_any_of(reader.inputs,
                            [s](const Pipeline::Input& input) { return input.from.stage == s; });
    });
  }

  // Only what somebody reads is fetched.
  void name_outputs() {
    const auto read = [this](const Source& from) {
      if (from.stage == Source::kRequest) return;
      auto& outputs = made_->stages[from.stage].outputs;
      if (!absl::c_linear_search(outputs, from.tensor)) outputs.push_back(from.tensor);
    };
    for (Pipeline::Stage& stage : made_->stages) {
      for (const Pipeline::Input& input : stage.inputs) read(input.from);
      if (stage.when) read(stage.when->from);
    }
    for (const Pipeline::Output& output : made_->outputs) {
      for (const Source& from : output.from) read(from);
    }
  }

  const ServiceOptions& options_;
  const PipelineOptions& own_;
  const FindRoute& find_;
  const FindCounters& counters_;
  const double quantile_;
  std::shared_ptr<Pipeline> made_;
  std::vector<Signature> signatures_;     // by stage
  std::shared_ptr<const Variant> first_;  // of the stages that are no operators
  bool batches_ = false;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Pipeline>> make_pipeline(const ServiceOptions& options,
                                                              const FindRoute& find,
                                                              const FindCounters& counters,
                                                              VariantId id, double quantile) {
  return Maker(options, find, counters, quantile).make(id);
}

}  // namespace fermata::engine
