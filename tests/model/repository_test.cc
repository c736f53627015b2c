#include "model/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "model/labels.h"
#include "model/model_files.h"

namespace fermata {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPointer[] =
    "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789\nsize 12345\n";
constexpr char kModel[] = "\x08\x08\x12\x07pytorch";  // as an ONNX file begins

class Repository : public ::testing::Test {
 protected:
  Repository() {
    std::string name = (fs::temp_directory_path() / "fermata-XXXXXX").string();
    FERMATA_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Repository() override { fs::remove_all(path_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
  }
  absl::Status read() const { return read_model_folder(path_, "m").status(); }
  // Of version 1's model.
  std::string says_of_file() const {
    return std::string(check_model_file(read_model_folder(path_, "m")->file(1)).message());
  }

  fs::path path_;
};

std::string says(const absl::Status& status) { return std::string(status.message()); }

TEST_F(Repository, AModelMayBeAFolderOfSeveralFiles) {
  write("m/1/model.onnx/model.onnx", kModel);
  write("m/1/model.onnx/weights.bin", "w");
  EXPECT_EQ(read_model_folder(path_, "m")->file(1), path_ / "m/1/model.onnx/model.onnx");
  EXPECT_EQ(says_of_file(), "");
  fs::remove(path_ / "m/1/model.onnx/model.onnx");
  EXPECT_THAT(says_of_file(), HasSubstr("its folder has 'weights.bin'"));
  write("m/config.pbtxt", "default_model_filename: 'net'");
  write("m/1/net/model.onnx", kModel);
  EXPECT_EQ(read_model_folder(path_, "m")->file(1), path_ / "m/1/net/model.onnx");
}

TEST_F(Repository, WithoutAVersionItIsNamedForWhatItIs) {
  const std::pair<const char*, const char*> kinds[] = {
      {"platform: 'ensemble'", "kind pipeline"},
      {"ensemble_scheduling { }", "kind pipeline"},
      {"platform: 'pytorch_libtorch'", "platform is 'pytorch_libtorch'"},
      {"backend: 'tensorrt'", "expected onnxruntime, python or openvino"},
      {"sequence_batching { }", "sequence_batching is not served"},
      {"model_transaction_policy { decoupled: true }", "decoupled"},
  };
  for (const auto& [config, expected] : kinds) {
    write("m/config.pbtxt", config);
    EXPECT_EQ(read().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(says(read()), AllOf(HasSubstr("config.pbtxt: "), HasSubstr(expected)));
  }
}

TEST_F(Repository, WithoutAVersionWhatStandsThereIsNamed) {
  write("m/notes.txt", "");
  EXPECT_EQ(read().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(says(read()), HasSubstr("no version"));
  fs::create_directories(path_ / "m/v1");
  EXPECT_EQ(read().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(says(read()), HasSubstr("its folders are 'v1'"));
  write("m/model.py", "");
  EXPECT_EQ(read().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(says(read()), HasSubstr("'model.py' is there: only ONNX models, Python models"));
  write("m/net.onnx", kModel);
  EXPECT_THAT(says(read()),
              AllOf(HasSubstr("'net.onnx' is there: move it to "), HasSubstr("m/1/model.onnx")));
}

TEST_F(Repository, WhatStandsInTheModelsPlaceIsNamed) {
  fs::create_directories(path_ / "m/1");
  EXPECT_THAT(says_of_file(), HasSubstr("no such file, its folder is empty"));
  write("m/1/.keep", "");
  EXPECT_THAT(says_of_file(), HasSubstr("its folder is empty"));
  for (const char* name : {"model.plan", "model.pt", "model.graphdef"}) {
    write(std::string("m/1/") + name, "x");
    EXPECT_THAT(says_of_file(), HasSubstr(name));
  }
  EXPECT_THAT(
      says_of_file(),
      HasSubstr(
          "only ONNX models, Python models (model.py) and OpenVINO models (model.xml) are served"));
  write("m/1/net.onnx", kModel);
  EXPECT_THAT(says_of_file(), HasSubstr("default_model_filename: \"net.onnx\""));
  for (char name : {'a', 'b', 'c', 'd'}) write(std::string("m/1/") + name, "x");
  fs::remove(path_ / "m/1/net.onnx");
  EXPECT_THAT(says_of_file(), HasSubstr("and 2 more"));
}

TEST_F(Repository, AFolderWithModelPyIsAPythonModel) {
  write("m/1/model.py", "class TritonPythonModel: pass");
  EXPECT_EQ(read_model_folder(path_, "m")->file(1), path_ / "m/1/model.py");
  EXPECT_EQ(read_model_folder(path_, "m")->config.backend(), "python");
  EXPECT_EQ(says_of_file(), "");
  write("m/1/model.onnx", kModel);
  EXPECT_EQ(read_model_folder(path_, "m")->file(1), path_ / "m/1/model.onnx");
  write("m/config.pbtxt", "backend: 'python'");
  EXPECT_EQ(read_model_folder(path_, "m")->file(1), path_ / "m/1/model.py");
  fs::remove(path_ / "m/1/model.py");
  EXPECT_THAT(says_of_file(), HasSubstr("expected the class TritonPythonModel there"));
}

TEST_F(Repository, WhatIsNoModelIsNotGivenToTheRuntime) {
  const std::pair<const char*, const char*> contents[] = {
      {"", "the file is empty"},
      {kPointer, "a Git LFS pointer"},
      {"<!DOCTYPE html>\n<html><body>Not found, as so often</body></html>",
       "text that begins with '<!DOCTYPE html>'"},
      {kModel, ""},
  };
  for (const auto& [content, expected] : contents) {
    write("m/1/model.onnx", content);
    EXPECT_THAT(says_of_file(), HasSubstr(expected));
  }
  EXPECT_EQ(says_of_file(), "");
  write("m/1/model.onnx.data", kPointer);
  EXPECT_THAT(says_of_file(), HasSubstr("model.onnx.data: a Git LFS pointer"));
}

TEST_F(Repository, PointersOfGitLfsAreNotReadAsTheFilesTheyStandFor) {
  write("m/1/model.onnx", kModel);
  write("m/config.pbtxt", kPointer);
  EXPECT_THAT(says(read()), HasSubstr("config.pbtxt: a Git LFS pointer"));
  write("m/config.pbtxt", "output { name: 'y' label_filename: 'l.txt' }");
  write("m/l.txt", kPointer);
  EXPECT_THAT(says(read_labels(*read_model_folder(path_, "m")).status()),
              HasSubstr("l.txt: a Git LFS pointer"));
}

TEST_F(Repository, FoldersOfFilesystemsAndToolsAreNoModels) {
  for (const char* folder : {"m", "lost+found", ".ipynb_checkpoints", "..data"}) {
    fs::create_directory(path_ / folder);
  }
  write("README.md", "models");
  const auto names = model_names(path_);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("m"));
}

TEST_F(Repository, ErrorsOfAGivenConfigurationDoNotNameTheFile) {
  write("m/1/model.onnx", kModel);
  for (const char* config :
       {"max_batch_size: many", "backend: 'tensorrt'", "default_model_filename: '../x'",
        "version_policy { specific { versions: [ 7 ] } }"}) {
    const absl::Status status = read_model_folder(path_, "m", config).status();
    EXPECT_THAT(says(status),
                AllOf(HasSubstr("parameter 'config': "), Not(HasSubstr("config.pbtxt"))));
  }
}

}  // namespace
}  // namespace fermata
