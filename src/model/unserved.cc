#include "model/unserved.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <array>

#include "absl/algorithm/container.h"
#include "model/dynamic_network.h"
#include "model/model_config.h"

namespace fermata {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Setting {
  std::string_view path;     // of a field, and of all below it that has no row of its own
  std::string_view instead;  // what happens; empty: it is followed, or its own check has its say
};

constexpr std::string_view kByDeadline = "requests go by their deadlines";
constexpr std::string_view kCopies = "each input is copied once, into its batch";
constexpr std::string_view kByProvider = "workers.provider says what runs it";
constexpr std::string_view kTensorRt = "that is for TensorRT engines";

// A field without a row is not followed.
constexpr auto kSettings = std::to_array<Setting>({
    {"name", ""},
    {"platform", ""},
    {"backend", ""},
    {"runtime", "ONNX Runtime runs every model"},
    {"version_policy", ""},
    {"max_batch_size", ""},
    {"input.name", ""},
    {"input.data_type", ""},
    {"input.format", ""},  // tells clients what the dimensions are
    {"input.dims", ""},
    {"input.reshape", ""},
    {"input.optional", "ONNX Runtime needs it in every request"},
    {"input.allow_ragged_batch", "requests of other shapes run in other batches"},
    {"input.is_shape_tensor", kTensorRt},
    {"input.is_non_linear_format_io", kTensorRt},
    {"output.name", ""},
    {"output.data_type", ""},
    {"output.dims", ""},
    {"output.reshape", ""},
    {"output.label_filename", ""},
    {"output.is_shape_tensor", kTensorRt},
    {"output.is_non_linear_format_io", kTensorRt},
    {"batch_input", ""},   // errors
    {"batch_output", ""},  // errors
    {"optimization.graph", "ONNX Runtime optimises as much as it can"},
    {"optimization.execution_accelerators", kByProvider},
    {"optimization.priority", kByDeadline},
    {"optimization.cuda", "no CUDA graphs are captured"},
    {"optimization.input_pinned_memory", kCopies},
    {"optimization.output_pinned_memory", "outputs are handed on as they are"},
    {"optimization.gather_kernel_buffer_threshold", kCopies},
    {"optimization.eager_batching", "a batch is gathered when a worker takes it"},
    {"dynamic_batching.preferred_batch_size", "the policy decides"},
    {"dynamic_batching.max_queue_delay_microseconds", "the policy decides how long a batch waits"},
    {"dynamic_batching.preserve_ordering", kByDeadline},
    {"dynamic_batching.priority_levels", kByDeadline},
    {"dynamic_batching.default_priority_level", kByDeadline},
    {"dynamic_batching.priority_queue_policy", kByDeadline},
    {"dynamic_batching.default_queue_policy", ""},  // add_queue_policy()
    {"sequence_batching", ""},                      // an error
    {"ensemble_scheduling", ""},                    // an error
    {"instance_group.name", ""},
    {"instance_group.kind", ""},   // add_groups()
    {"instance_group.count", ""},  // add_groups()
    {"instance_group.rate_limiter", "workers take batches by their deadlines"},
    {"instance_group.gpus", kByProvider},
    {"instance_group.secondary_devices", kByProvider},
    {"instance_group.profile", kTensorRt},
    {"instance_group.passive", "every worker runs every model"},
    {"instance_group.host_policy", "workers are not bound to parts of the machine"},
    {"default_model_filename", ""},
    {"cc_model_filenames", "every worker runs the same file (default_model_filename)"},
    {"metric_tags", "metrics have the service's and the version's name"},
    {"parameters", ""},    // add_parameters()
    {"model_warmup", ""},  // add_warmups()
    {"model_operations", "no library of operators is loaded"},
    {"model_transaction_policy", ""},  // an error
    {"model_repository_agents", "no agent runs, so nothing is compared or changed"},
    {"response_cache.enable", "every request runs"},
    {"model_metrics", "the metrics are those of docs/metrics.md"},
});

const Setting* row_of(std::string_view path) {
  const auto it = absl::c_find_if(kSettings, [&](const Setting& s) { return s.path == path; });
  return it == kSettings.end() ? nullptr : &*it;
}

bool has_rows_below(std::string_view path) {
  return absl::c_any_of(kSettings, [path](const Setting& setting) {
    return setting.path.size() > path.size() && setting.path.starts_with(path) &&
           setting.path[path.size()] == '.';
  });
}

class Walk {
 public:
  Walk(std::vector<std::string>& notes, bool python) : notes_(notes), python_(python) {}

  // `path` is that of kSettings with its last dot, `where` what a reader is told.
  void message(const Message& message, const std::string& path, const std::string& where) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) this->field(message, *field, path, where);
  }

 private:
  void field(const Message& message, const FieldDescriptor& field, const std::string& path,
             const std::string& where) {
    const std::string own = path + field.name();
    if (const Setting* row = row_of(own)) {
      if (python_ && (own == "runtime" || own == "input.optional")) return;
      if (!row->instead.empty()) add(fmt::format("{}{}: {}", where, field.name(), row->instead));
    } else if (has_rows_below(own)) {
      below(message, field, own + ".", where + field.name());
    } else {
      add(fmt::format("{}{}: not followed", where, field.name()));
    }
  }

  // Tensors by their names; of other lists one word is enough.
  void below(const Message& message, const FieldDescriptor& field, const std::string& path,
             const std::string& where) {
    const auto* reflection = message.GetReflection();
    if (!field.is_repeated()) {
      return this->message(reflection->GetMessage(message, &field), path, where + ".");
    }
    for (int i = 0; i < reflection->FieldSize(message, &field); ++i) {
      const Message& element = reflection->GetRepeatedMessage(message, &field, i);
      const bool tensor = path == "input." || path == "output.";
      this->message(element, path, tensor ? named(element, where) : where + ".");
    }
  }

  static std::string named(const Message& tensor, const std::string& where) {
    const FieldDescriptor* name = tensor.GetDescriptor()->FindFieldByName("name");
    return fmt::format("{} '{}': ", where, tensor.GetReflection()->GetString(tensor, name));
  }

  void add(std::string note) {
    if (!absl::c_linear_search(notes_, note)) notes_.push_back(std::move(note));
  }

  std::vector<std::string>& notes_;
  const bool python_;  // its code reads parameters, and inputs may be left out
};

void add_queue_policy(const inference::ModelQueuePolicy& queue, std::vector<std::string>& notes) {
  constexpr std::string_view kQueue = "dynamic_batching.default_queue_policy";
  if (queue.timeout_action() == inference::ModelQueuePolicy::DELAY) {
    notes.push_back(
        fmt::format("{}.timeout_action DELAY: requests past their timeout are rejected, and those "
                    "without one have no deadline",
                    kQueue));
  }
  if (queue.default_timeout_microseconds() > 0 && !queue.allow_timeout_override()) {
    notes.push_back(fmt::format(
        "{}: a request's own timeout counts, as if allow_timeout_override were true", kQueue));
  }
}

void add_groups(const inference::ModelConfig& config, std::string_view provider,
                std::vector<std::string>& notes) {
  const auto any_of_kind = [&config](inference::ModelInstanceGroup::Kind kind) {
    return absl::c_any_of(config.instance_group(),
                          [kind](const auto& group) { return group.kind() == kind; });
  };
  if (any_of_kind(inference::ModelInstanceGroup::KIND_GPU) && provider == "cpu") {
    notes.emplace_back("instance_group: KIND_GPU, but workers.provider is cpu: it runs there");
  }
  if (any_of_kind(inference::ModelInstanceGroup::KIND_CPU) && provider != "cpu") {
    notes.push_back(fmt::format(
        "instance_group: KIND_CPU, but workers.provider is {}: it runs there", provider));
  }
  if (absl::c_any_of(config.instance_group(), [](const auto& g) { return g.count() > 1; })) {
    notes.emplace_back("instance_group.count: every worker runs every model (workers.count)");
  }
}

void add_parameters(const inference::ModelConfig& config, std::vector<std::string>& notes) {
  for (const auto& [name, value] : config.parameters()) {
    if (absl::c_linear_search(kDynamicParameters, name)) continue;
    notes.push_back(fmt::format("parameters '{}': not used", name));
  }
}

// Why the shape of a warm-up's input cannot be measured with; empty: it can.
std::string misfit(const inference::ModelWarmup::Input& given, const TensorSpec* wanted) {
  if (wanted == nullptr) return "is not in the model";
  if (given.data_type() != to_proto(wanted->datatype)) {
    return fmt::format("has data_type {}, the model has {}",
                       inference::DataType_Name(given.data_type()),
                       inference::DataType_Name(to_proto(wanted->datatype)));
  }
  if (wanted->any_rank) return {};
  const Shape dims(given.dims().begin(), given.dims().end());
  const bool fits = absl::c_equal(dims, wanted->dims, [](int64_t has, int64_t want) {
    return has > 0 && (want == -1 || has == want);
  });
  if (fits || dims.empty()) return {};
  return fmt::format("has dims {}, the model has {}", to_string(dims), to_string(wanted->dims));
}

// Zeros are what the model is measured with anyway.
void add_warmups(const inference::ModelConfig& config, const Signature& model,
                 std::vector<std::string>& notes) {
  bool data = false, counted = false;
  for (const auto& warmup : config.model_warmup()) {
    counted = counted || warmup.count() > 0;
    for (const auto& [name, input] : warmup.inputs()) {
      data = data || !input.zero_data();
      if (const std::string why = misfit(input, model.input(name)); !why.empty()) {
        notes.push_back(fmt::format("model_warmup '{}': input '{}' {}", warmup.name(), name, why));
      }
    }
  }
  if (data) {
    notes.emplace_back("model_warmup: only its shapes are used, to measure the model with zeros");
  }
  if (counted) notes.emplace_back("model_warmup.count: the model runs as often as measuring takes");
}

}  // namespace

std::vector<std::string> unserved_settings(const inference::ModelConfig& config,
                                           const Signature& model, std::string_view provider) {
  std::vector<std::string> notes;
  Walk(notes, is_python(config)).message(config, "", "");
  add_queue_policy(config.dynamic_batching().default_queue_policy(), notes);
  add_groups(config, provider, notes);
  if (!is_python(config)) add_parameters(config, notes);
  add_warmups(config, model, notes);
  return notes;
}

}  // namespace fermata
