#include "engine/execute/python_backend.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/document.h"
#include "base/status.h"
#include "engine/confine/child.h"

namespace fermata::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEnvironment = "EXECUTION_ENV_PATH";
constexpr Duration kAskingScript = Duration::seconds(20);

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

// As a shell finds it.
absl::StatusOr<std::string> python_found(const std::string& python) {
  if (absl::StrContains(python, '/')) {
    if (is_program(python)) return python;
    return invalid("workers.python is '{}', expected a Python that is there", python);
  }
  const char* const folders = std::getenv("PATH");
  for (const absl::string_view folder : absl::StrSplit(folders == nullptr ? "" : folders, ':')) {
    const fs::path file = fs::path(std::string(folder)) / python;
    if (is_program(file)) return file.string();
  }
  return invalid(
      "there is no '{}' in PATH to run it: install Python 3 with numpy, or name one in "
      "workers.python",
      python);
}

absl::StatusOr<std::string> python_in(const std::string& environment) {
  std::error_code ignored;
  if (fs::is_directory(environment, ignored)) {
    const fs::path python = fs::path(environment) / "bin" / "python3";
    if (is_program(python)) return python.string();
    return invalid(
        "parameters: {} is '{}', which has no bin/python3: expected a virtual environment",
        kEnvironment, environment);
  }
  if (is_program(environment)) return environment;
  return invalid("parameters: {} is '{}', expected the folder of a virtual environment{}",
                 kEnvironment, environment,
                 fs::exists(environment, ignored) ? ": unpack it, and name its folder" : "");
}

bool is_script(const std::string& file) {
  std::array<char, 2> start{};
  std::ifstream(file, std::ios::binary).read(start.data(), start.size());
  return start == std::array{'#', '!'};
}

// The Python that a script starts.
absl::StatusOr<std::string> behind_script(const std::string& file) {
  static std::mutex& mutex = *new std::mutex;
  static auto& known = *new std::map<std::string, std::string>;  // such scripts take their time
  const std::lock_guard lock(mutex);
  if (const auto it = known.find(file); it != known.end()) return it->second;
  ASSIGN_OR_RETURN(const ChildResult asked,
                   run_child({file, "-c", "import sys; print(sys.executable)"}, kAskingScript));
  std::string python = asked.output.substr(0, asked.output.find('\n'));
  if (asked.exit_code == 0 && is_program(python)) return known[file] = python;
  return invalid(
      "'{}' is a script, which may not start Python where models run, and does not say which "
      "Python it starts{}{}: name that in workers.python",
      file, asked.error.empty() ? "" : ": ", asked.error);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> python_command(const Variant& variant,
                                                        const WorkerType& type,
                                                        const WorkerOptions& options) {
  absl::StatusOr<std::string> python = std::string();
  const auto own = variant.config.parameters().find(kEnvironment);
  if (own != variant.config.parameters().end()) {
    const fs::path model = fs::path(variant.file).parent_path().parent_path();
    python = python_in(absl::StrReplaceAll(own->second.string_value(),
                                           {{"$$TRITON_MODEL_DIRECTORY", model.string()}}));
  } else {
    python = python_found(options.python);
  }
  RETURN_IF_ERROR(python.status());
  const bool named_by_model = own != variant.config.parameters().end();
  if (is_script(*python) && named_by_model) {
    return invalid(
        "parameters: {} is '{}', a script, which the server would have to run with its own rights: "
        "expected the Python that it starts",
        kEnvironment, *python);
  }
  if (is_script(*python)) {
    python = behind_script(*python);
    RETURN_IF_ERROR(python.status());
  }
  // No bytecode is written, which is not allowed there, and prints are seen at once.
  return std::vector<std::string>{*python, "-B",          "-u",
                                  "-",     variant.model, std::to_string(type.threads)};
}

std::string python_program() {
  std::string start;
  Json files = Json::object();
  for (const PythonFile& file : python_files()) {
    if (file.name == "start.py") {
      start = file.text;
    } else {
      files[std::string(file.name)] = file.text;
    }
  }
  return "FILES = " + files.dump(-1, ' ', true) + "\n" + start;
}

}  // namespace fermata::engine
