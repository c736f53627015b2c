#include "serve/config/lone_model.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "model/model_kind.h"

namespace fermata::serve {
namespace {
namespace fs = std::filesystem;

bool is_version(const std::string& name) {
  return !name.empty() && absl::c_all_of(name, absl::ascii_isdigit);
}

// What config.pbtxt has to say of a version's files.
struct Files {
  const ModelKind* kind = nullptr;
  std::string file;
};

std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) found.push_back(entry.path());
  absl::c_sort(found);
  return found;
}

// The model among the files of `folder`; none: there is none.
absl::StatusOr<std::optional<Files>> files_of(const fs::path& folder) {
  std::vector<Files> candidates;
  for (const fs::path& file : entries(folder)) {
    const std::string name = file.filename();
    for (const ModelKind& kind : model_kinds()) {
      if (name == kind.file) return Files{&kind, name};
      // Python has many files beside a model's.
      const fs::path usual = kind.file;
      const bool is_script = usual.extension() == ".py";
      if (!is_script && name[0] != '.' && file.extension() == usual.extension()) {
        candidates.push_back({&kind, name});
      }
    }
  }
  if (candidates.empty()) return std::nullopt;
  if (candidates.size() > 1) {
    return invalid(
        "{}: {} and {} could both be the model, expected one file, or one that is called {}",
        folder.string(), candidates[0].file, candidates[1].file, served_files());
  }
  return candidates[0];
}

bool has_versions(const fs::path& folder) {
  return absl::c_any_of(entries(folder), [](const fs::path& entry) {
    const auto files = is_version(entry.filename()) ? files_of(entry) : std::nullopt;
    return files.ok() && files->has_value();
  });
}

absl::Status make_links(const fs::path& folder, const fs::path& model,
                        const std::optional<Files>& files) {
  std::error_code failed;
  if (!files) {
    fs::create_directory_symlink(folder, model, failed);
  } else {
    fs::create_directory(model, failed);
    if (!failed) fs::create_directory_symlink(folder, model / "1", failed);
    // The model's own, which may stand beside its file.
    const fs::path config = folder / "config.pbtxt";
    if (!failed && fs::exists(config)) {
      fs::create_symlink(config, model / "config.pbtxt", failed);
    } else if (!failed && files->file != files->kind->file) {
      std::ofstream(model / "config.pbtxt") << fmt::format(
          "backend: \"{}\"\ndefault_model_filename: \"{}\"\n", files->kind->backend, files->file);
    }
  }
  if (!failed) return absl::OkStatus();
  return internal("cannot make {}: {}", model.string(), failed.message());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoneModel>> LoneModel::find(const std::string& folder,
                                                           const std::string& name) {
  if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
    return invalid("--model-name {}: expected a folder's name, without / and not hidden", name);
  }
  const fs::path path = fs::absolute(folder);
  std::optional<Files> files;
  if (!has_versions(path)) {
    ASSIGN_OR_RETURN(files, files_of(path));
    if (!files) return nullptr;
  }
  std::string made = (fs::temp_directory_path() / "fermata-XXXXXX").string();
  if (mkdtemp(made.data()) == nullptr) {
    return internal("cannot make a folder like {}; set TMPDIR to one that can be written", made);
  }
  auto lone = std::unique_ptr<LoneModel>(new LoneModel(made));
  RETURN_IF_ERROR(make_links(path, fs::path(made) / name, files));
  return lone;
}

LoneModel::~LoneModel() {
  std::error_code ignored;
  fs::remove_all(repository_, ignored);  // links are removed, not what they lead to
}

}  // namespace fermata::serve
