#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/signature.h"
#include "model_config.pb.h"

namespace fermata {

// The settings of a model's configuration that are read and not followed, one line each, with what
// happens instead; for the log and for `fermata check`. Every field that is set is either known to
// be followed or named, whatever its value. `config` is as it was written, `model` what the model
// is once it is completed; `provider` is that of the workers.
std::vector<std::string> unserved_settings(const inference::ModelConfig& config,
                                           const Signature& model, std::string_view provider);

}  // namespace fermata
