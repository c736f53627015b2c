#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "model/signature.h"
#include "model_config.pb.h"

namespace fermata {

// What a model file itself says of its inputs and outputs: whole shapes, -1 where
// a dimension is free; `symbols` names free dimensions, "" where it has no name.
struct FileTensor {
  std::string name;
  DataType datatype = DataType::kFp32;
  Shape shape;
  std::vector<std::string> symbols;
  bool any_rank = false;  // it does not say how many dimensions there are
};
struct FileSignature {
  std::vector<FileTensor> inputs, outputs;
  std::vector<FileTensor> defaults;  // may be given too: initializers that an input replaces
};

// Parses a config.pbtxt, or a ModelConfig as JSON if the text starts with '{'.
// Errors name `source`, line and column.
absl::StatusOr<inference::ModelConfig> parse_model_config(std::string_view text,
                                                          std::string_view source);

// Whether the configuration is of a model of that name and of a kind that is served, whatever its
// file says. INVALID_ARGUMENT names the field and what was expected.
absl::Status check_kind(const inference::ModelConfig& config, std::string_view model);

bool is_python(const inference::ModelConfig& config);  // its code says what is left open

// Of one with code of its own: names and checks; all its tensors have to be declared.
absl::StatusOr<inference::ModelConfig> complete_python_config(inference::ModelConfig config,
                                                              std::string_view model);

// Fills in what the configuration leaves open (name, platform, tensors, and, where it
// does not name max_batch_size, whether the model may batch: all leads with a free dimension,
// that of the inputs of one name) and checks what it does say against the file. Inputs with a
// default are optional, and not there unless they are declared. Errors name the field, what stands
// there and what the file has.
absl::StatusOr<inference::ModelConfig> complete_model_config(inference::ModelConfig config,
                                                             const FileSignature& file,
                                                             std::string_view model,
                                                             uint32_t default_max_batch);

// Why a model of free dimensions does not batch, where its configuration leaves max_batch_size and
// whole shapes out; empty where it does, or where its rows decide.
std::string why_not_batching(const inference::ModelConfig& written, const FileSignature& file);

// Of a model that batches.
void lower_max_batch(inference::ModelConfig& config, uint32_t most);

// `config` is complete. What it cannot say, that a rank is open or that free dimensions have one
// name, is the file's.
Signature signature_of(const inference::ModelConfig& config, const FileSignature& file = {});

// Makes the tensors and the largest batch of `config` those of `signature`, as of a service that
// several models answer.
void set_signature(const Signature& signature, inference::ModelConfig& config);

inference::DataType to_proto(DataType type);
// None of TYPE_INVALID.
std::optional<DataType> from_proto(inference::DataType type);

}  // namespace fermata
