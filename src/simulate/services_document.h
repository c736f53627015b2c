#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/document.h"
#include "simulate/scenario.h"

namespace fermata::simulate {

// Where a document names one of its services as a member of another, and which.
using ServiceNames = std::vector<std::pair<Reader, std::string>>;

// Gives members their places among the scenario's sources, once all of it has been read. Of a
// service one of whose members is a service, every member is one then: models and variants of its
// own become models of the scenario that nobody calls directly. Names that two services have,
// unknown ones and services that contain themselves are errors.
void resolve_services(Reader root, const ServiceNames& named, Scenario& scenario);

}  // namespace fermata::simulate
