#include "model/model_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>

#include "base/status.h"

namespace fermata {
namespace {

// Keeps the first error; what follows is mostly its consequence.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = fmt::format("line {}, column {}: {}", line + 1, column + 1, message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// In the order of fermata::DataType.
constexpr std::array<inference::DataType, 14> kProtoTypes = {
    inference::TYPE_BOOL,   inference::TYPE_UINT8, inference::TYPE_UINT16, inference::TYPE_UINT32,
    inference::TYPE_UINT64, inference::TYPE_INT8,  inference::TYPE_INT16,  inference::TYPE_INT32,
    inference::TYPE_INT64,  inference::TYPE_FP16,  inference::TYPE_BF16,   inference::TYPE_FP32,
    inference::TYPE_FP64,   inference::TYPE_STRING};

TensorSpec spec_of(const auto& tensor) {
  TensorSpec spec;
  spec.name = tensor.name();
  spec.datatype = from_proto(tensor.data_type()).value_or(DataType::kFp32);
  spec.dims.assign(tensor.dims().begin(), tensor.dims().end());
  spec.model_dims = spec.dims;
  if (tensor.has_reshape()) {
    spec.model_dims.assign(tensor.reshape().shape().begin(), tensor.reshape().shape().end());
  }
  return spec;
}

}  // namespace

inference::DataType to_proto(DataType type) { return kProtoTypes[static_cast<size_t>(type)]; }

std::optional<DataType> from_proto(inference::DataType type) {
  const auto it = std::find(kProtoTypes.begin(), kProtoTypes.end(), type);
  if (it == kProtoTypes.end()) return std::nullopt;
  return static_cast<DataType>(it - kProtoTypes.begin());
}

absl::StatusOr<inference::ModelConfig> parse_model_config(std::string_view text,
                                                          std::string_view source) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // as editors on Windows write it
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  inference::ModelConfig config;
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '{') {
    const auto status = google::protobuf::util::JsonStringToMessage(
        google::protobuf::StringPiece(text.data(), text.size()), &config);
    if (!status.ok()) return invalid("{}: {}", source, status.ToString());
    return config;
  }
  FirstError first_error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&first_error);
  if (!parser.ParseFromString(std::string(text), &config)) {
    return invalid("{}: {}", source, first_error.text());
  }
  return config;
}

Signature signature_of(const inference::ModelConfig& config) {
  Signature signature;
  signature.batches = config.max_batch_size() > 0;
  signature.max_batch = static_cast<uint32_t>(std::max(1, config.max_batch_size()));
  for (const auto& input : config.input()) {
    signature.inputs.push_back(spec_of(input));
    signature.inputs.back().optional = input.optional();
  }
  for (const auto& output : config.output()) signature.outputs.push_back(spec_of(output));
  return signature;
}

}  // namespace fermata
