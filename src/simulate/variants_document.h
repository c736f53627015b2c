#pragma once

#include <cstdint>
#include <vector>

#include "base/document.h"
#include "model/profile.h"
#include "simulate/scenario.h"
#include "simulate/services_document.h"

namespace fermata::simulate {

constexpr double kLongestTimeMs = 1e8;  // about a day, for every time in a scenario
constexpr int64_t kLargestBatch = 65'536;

// The "applications" of a scenario, whose workers and models have been read.
std::vector<SimulatedVariants> read_variants_services(Reader value, const Scenario& scenario,
                                                      ServiceNames& named);

// What runs and how long, without how often it is right: the name of a service of the document
// or of one of the scenario's models, or a model of its own. `answers`: how often it is right,
// where it names a profile that says so.
SimulatedVariant read_runnable(Reader value, ObjectReader& fields, const Scenario& scenario,
                               ServiceNames& named, AnswerProfile* answers = nullptr);

// The same with how often it is right: recall for so many classes; 0: any number.
SimulatedVariant read_variant(Reader value, const Scenario& scenario, size_t classes,
                              ServiceNames& named);

}  // namespace fermata::simulate
