#pragma once

#include <variant>

#include "policy/ensemble/ensemble.h"
#include "policy/variants/application.h"

namespace fermata::policy {

// What is found out about a request from its data while it waits.
using Estimate = std::variant<Evidence, Difficulty>;

}  // namespace fermata::policy
