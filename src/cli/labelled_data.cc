#include "cli/labelled_data.h"

#include <utility>

#include "base/status.h"
#include "estimate/labelled_points.h"
#include "load/records.h"
#include "model/npy.h"

namespace fermata::cli {
namespace {

absl::StatusOr<engine::LabelledRequests> from_records(const std::string& file, Labels labels) {
  ASSIGN_OR_RETURN(std::vector<load::Record> records, load::load_records(file));
  engine::LabelledRequests data;
  const bool unlabelled = labels == Labels::kLeftOut ||
                          (labels == Labels::kTaken && !records.empty() && !records.front().label);
  for (load::Record& record : records) {
    data.inputs.push_back(std::move(record.inputs));
    if (unlabelled) continue;
    const auto* label = record.label ? std::get_if<int64_t>(&*record.label) : nullptr;
    if (label == nullptr || *label < 0 || *label >= Confusion::kMostClasses) {
      return invalid("{}: example {} has {}, expected a class from 0 to {} as its label", file,
                     data.labels.size(),
                     label != nullptr ? fmt::format("label {}", *label)
                     : record.label   ? "a text as its label"
                                      : "no label",
                     Confusion::kMostClasses - 1);
    }
    data.labels.push_back(static_cast<uint32_t>(*label));
  }
  return data;
}

// "FILE" or "INPUT=FILE".
absl::StatusOr<Tensor> read_input(const std::string& text, const Signature& signature) {
  const size_t equals = text.find('=');
  if (equals == text.npos && signature.inputs.size() != 1) {
    return invalid("--data is '{}', but the model has {} inputs: expected INPUT=FILE.npy", text,
                   signature.inputs.size());
  }
  ASSIGN_OR_RETURN(Tensor tensor, read_npy(equals == text.npos ? text : text.substr(equals + 1)));
  tensor.name = equals == text.npos ? signature.inputs[0].name : text.substr(0, equals);
  return tensor;
}

}  // namespace

absl::StatusOr<engine::LabelledRequests> read_labelled(const LabelledFiles& files,
                                                       const Signature& signature, Labels labels) {
  const bool records = files.data.size() == 1 && files.data[0].ends_with(".jsonl");
  if (records && !files.labels.empty()) {
    return invalid("--labels is given, but {} has its own", files.data[0]);
  }
  if (!records && files.labels.empty() && labels == Labels::kRequired) {
    return invalid("--data is given without --labels, the class of each example");
  }
  if (records) return from_records(files.data[0], labels);
  std::vector<Tensor> inputs;
  for (const std::string& text : files.data) {
    ASSIGN_OR_RETURN(inputs.emplace_back(), read_input(text, signature));
  }
  engine::LabelledRequests data;
  if (!files.labels.empty()) {
    ASSIGN_OR_RETURN(const Tensor classes_of, read_npy(files.labels));
    uint32_t classes = 0;
    ASSIGN_OR_RETURN(data.labels, estimate::class_labels(classes_of, classes));
  }
  ASSIGN_OR_RETURN(data.inputs, engine::rows_as_requests(inputs, signature));
  return data;
}

}  // namespace fermata::cli
