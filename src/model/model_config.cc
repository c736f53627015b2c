#include "model/model_config.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <array>
#include <map>

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

const FileTensor* named(const std::vector<FileTensor>& tensors, const std::string& name) {
  const auto it = std::find_if(tensors.begin(), tensors.end(),
                               [&name](const FileTensor& tensor) { return tensor.name == name; });
  return it == tensors.end() ? nullptr : &*it;
}

void add_file(const FileTensor* file, bool batches, TensorSpec& spec) {
  if (file == nullptr || spec.dims != spec.model_dims) return;
  spec.any_rank = file->any_rank && spec.dims.empty();
  if (file->any_rank || file->symbols.size() != spec.dims.size() + (batches ? 1 : 0)) return;
  spec.symbols.assign(file->symbols.begin() + (batches ? 1 : 0), file->symbols.end());
}

// Names of a dimension that no other free dimension has tell nothing; "?" and "None" are what
// exporters write where they know no name.
void keep_shared_symbols(std::vector<TensorSpec>& inputs) {
  std::map<std::string, int> uses;
  for (TensorSpec& input : inputs) {
    for (size_t d = 0; d < input.symbols.size(); ++d) {
      std::string& symbol = input.symbols[d];
      if (input.dims[d] != -1 || symbol == "?" || symbol == "None") symbol.clear();
      if (!symbol.empty()) ++uses[symbol];
    }
  }
  for (TensorSpec& input : inputs) {
    for (std::string& symbol : input.symbols) {
      if (uses[symbol] < 2) symbol.clear();
    }
    if (std::all_of(input.symbols.begin(), input.symbols.end(),
                    [](const std::string& symbol) { return symbol.empty(); })) {
      input.symbols.clear();
    }
  }
}

}  // namespace

inference::DataType to_proto(DataType type) { return kProtoTypes[static_cast<size_t>(type)]; }

std::optional<DataType> from_proto(inference::DataType type) {
  const auto it = std::find(kProtoTypes.begin(), kProtoTypes.end(), type);
  if (it == kProtoTypes.end()) return std::nullopt;
  return static_cast<DataType>(it - kProtoTypes.begin());
}

void set_signature(const Signature& signature, inference::ModelConfig& config) {
  config.set_max_batch_size(signature.batches ? static_cast<int32_t>(signature.max_batch) : 0);
  config.clear_input();
  config.clear_output();
  const auto fill = [](const TensorSpec& spec, auto& tensor) {
    tensor.set_name(spec.name);
    tensor.set_data_type(to_proto(spec.datatype));
    for (const int64_t dim : spec.dims) tensor.add_dims(dim);
  };
  for (const TensorSpec& spec : signature.inputs) {
    auto& input = *config.add_input();
    fill(spec, input);
    input.set_optional(spec.optional);
  }
  for (const TensorSpec& spec : signature.outputs) fill(spec, *config.add_output());
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

Signature signature_of(const inference::ModelConfig& config, const FileSignature& file) {
  Signature signature;
  signature.batches = config.max_batch_size() > 0;
  signature.max_batch = static_cast<uint32_t>(std::max(1, config.max_batch_size()));
  for (const auto& input : config.input()) {
    signature.inputs.push_back(spec_of(input));
    signature.inputs.back().optional = input.optional();
  }
  for (const auto& output : config.output()) signature.outputs.push_back(spec_of(output));
  for (TensorSpec& input : signature.inputs) {
    add_file(named(file.inputs, input.name), signature.batches, input);
  }
  for (TensorSpec& output : signature.outputs) {
    add_file(named(file.outputs, output.name), signature.batches, output);
    output.symbols.clear();
  }
  keep_shared_symbols(signature.inputs);
  return signature;
}

}  // namespace fermata
