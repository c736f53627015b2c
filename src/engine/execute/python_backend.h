#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/options.h"

namespace fermata::engine {

// Models of `backend: "python"` (docs/python-models.md): a Python of the user's runs them, as a
// model process of its own program, python/fermata_backend.

// The interpreter that the configuration names (EXECUTION_ENV_PATH), else workers.python.
// A script of workers.python that starts one, as version managers install, is asked which: it may
// not start it where the model runs. INVALID_ARGUMENT for a model's own script, which may do
// anything.
absl::StatusOr<std::vector<std::string>> python_command(const Variant& variant,
                                                        const WorkerType& type,
                                                        const WorkerOptions& options);

// What it reads from its standard input: every file of the program, and what runs them.
std::string python_program();

struct PythonFile {
  std::string_view name, text;
};
std::span<const PythonFile> python_files();  // cmake/Carry.cmake

}  // namespace fermata::engine
