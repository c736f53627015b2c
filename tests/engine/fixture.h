#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "places/places.h"

namespace fermata::engine {

// A folder that goes when the test does.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fermata-XXXXXX").string();
    FERMATA_CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  void copy_model(const std::string& model, const std::string& as) const {
    std::filesystem::create_directories(path_ / as);
    std::filesystem::copy(data_folder() + "/repository/" + model, path_ / as,
                          std::filesystem::copy_options::recursive |
                              std::filesystem::copy_options::overwrite_existing);
  }

 private:
  std::filesystem::path path_;
};

template <class T>
Tensor tensor(std::string name, DataType type, Shape shape, std::vector<T> values) {
  const auto all = std::as_bytes(std::span(values));
  auto bytes = std::make_shared<std::vector<std::byte>>(all.begin(), all.end());
  return {std::move(name), type, std::move(shape), {*bytes, bytes}};
}
inline Tensor floats(std::string name, Shape shape, std::vector<float> values) {
  return tensor<float>(std::move(name), DataType::kFp32, std::move(shape), std::move(values));
}
inline Tensor ints(std::string name, Shape shape, std::vector<int32_t> values) {
  return tensor<int32_t>(std::move(name), DataType::kInt32, std::move(shape), std::move(values));
}
inline Tensor text(std::string name, Shape shape, const std::vector<std::string>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    const auto* raw = reinterpret_cast<const std::byte*>(&length);
    bytes->insert(bytes->end(), raw, raw + sizeof(length));
    raw = reinterpret_cast<const std::byte*>(value.data());
    bytes->insert(bytes->end(), raw, raw + value.size());
  }
  return {std::move(name), DataType::kBytes, std::move(shape), {*bytes, bytes}};
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
  std::vector<T> result(tensor.data.bytes.size() / sizeof(T));
  std::memcpy(result.data(), tensor.data.bytes.data(), tensor.data.bytes.size());
  return result;
}

// Submits and waits for the one reply.
inline ReplyPart call(Engine& engine, InferRequest request) {
  std::promise<ReplyPart> promise;
  request.arrival = engine.now();
  request.explain = true;
  engine.submit(std::move(request),
                [&promise](ReplyPart part) { promise.set_value(std::move(part)); });
  return promise.get_future().get();
}

// With FERMATA_ISOLATION=process in the environment models run in processes of their own.
inline EngineOptions options_for(const std::filesystem::path& repository) {
  EngineOptions options;
  options.workers.isolation = Isolation::kThread;
  const char* const isolation = std::getenv("FERMATA_ISOLATION");
  if (isolation != nullptr && std::string(isolation) == "process") {
    options.workers.isolation = Isolation::kProcess;
    options.workers.program = fermata_command();
  }
  options.repository = repository.string();
  options.probe_program = fermata_command();
  return options;
}

// A model of the emulated kind that needs no file: one FP32 input and output of `n`.
inline void write_emulated_profile(const TemporaryFolder& folder, const std::string& model,
                                   uint32_t max_batch, double alpha_ms, double beta_ms,
                                   double memory_mb = 0, const std::string& file = "profile.json") {
  Profile profile{
      .version = 1, .model = model, .model_version = "1", .machine = "none", .provider = "cpu"};
  for (uint32_t b : {1u, std::max(2u, max_batch)}) {
    const double ms = alpha_ms * b + beta_ms;
    profile.batches[b] = {1, ms, ms, ms, ms};
  }
  fit(profile);
  profile.memory_mb = profile.static_mb = memory_mb;
  FERMATA_CHECK(write_profile(profile, folder.path() / model / file).ok());
}

inline void write_emulated(const TemporaryFolder& folder, const std::string& model,
                           uint32_t max_batch, double alpha_ms, double beta_ms,
                           double memory_mb = 0) {
  folder.write(model + "/config.pbtxt",
               "max_batch_size: " + std::to_string(max_batch) +
                   "\ninput { name: \"x\" data_type: TYPE_FP32 dims: 2 }\n"
                   "output { name: \"y\" data_type: TYPE_FP32 dims: 3 }\n");
  std::filesystem::create_directories(folder.path() / model / "1");
  write_emulated_profile(folder, model, max_batch, alpha_ms, beta_ms, memory_mb);
}

}  // namespace fermata::engine
