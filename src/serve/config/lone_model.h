#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace fermata::serve {

// A repository around one model, for as long as this is there: links in a folder of its own below
// the system's folder for such (TMPDIR).
class LoneModel {
 public:
  // Null where `folder` is a repository already. It is one model where it holds versions
  // (1/model.onnx), or a version's files (model.onnx, or one file of another name that ends so).
  // INVALID_ARGUMENT where `name` cannot be a folder's or several files could be the model.
  static absl::StatusOr<std::unique_ptr<LoneModel>> find(const std::string& folder,
                                                         const std::string& name);
  ~LoneModel();
  LoneModel(const LoneModel&) = delete;
  LoneModel& operator=(const LoneModel&) = delete;

  const std::string& repository() const { return repository_; }

 private:
  explicit LoneModel(std::string repository) : repository_(std::move(repository)) {}
  const std::string repository_;
};

}  // namespace fermata::serve
