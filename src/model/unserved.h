#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_config.pb.h"

namespace fermata {

// The settings of a model's configuration that are read and not followed, one line each, with what
// happens instead; for the log and for `fermata check`. `provider` is that of the workers.
std::vector<std::string> unserved_settings(const inference::ModelConfig& config,
                                           std::string_view provider);

}  // namespace fermata
