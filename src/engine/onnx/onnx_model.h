#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/onnx/onnx_api.h"
#include "model/model_config.h"
#include "model/tensor.h"

namespace fermata::engine {

struct OnnxOptions {
  std::string provider = "cpu";
  uint32_t threads = 1;  // intra-op
};

// OK where sessions with these options can be made here: the library knows the provider
// and what it needs is installed. Else INVALID_ARGUMENT with the providers that work.
absl::Status check_provider(const OnnxOptions& options);

// One input of a run: a whole tensor as the model wants it, borrowed. `data` is
// aligned to its element; BYTES in the protocol's form.
struct OnnxInput {
  const std::string* name = nullptr;
  DataType datatype = DataType::kFp32;
  Shape shape;
  absl::Span<const std::byte> data;
};

// A model file as an ONNX Runtime session.
class OnnxModel {
 public:
  // Blocks. INVALID_ARGUMENT names the file and what is wrong with it, or the
  // providers there are.
  static absl::StatusOr<std::shared_ptr<OnnxModel>> load(const std::string& file,
                                                         const OnnxOptions& options);

  const FileSignature& signature() const { return signature_; }
  // Runs on the calling thread (and the session's own where threads > 1); safe from
  // several. One output per name, in order; each keeps its memory alive itself. `options` may
  // stop it from another thread; null: nothing does.
  absl::StatusOr<std::vector<Tensor>> run(const std::vector<OnnxInput>& inputs,
                                          const std::vector<std::string>& outputs,
                                          const OrtRunOptions* options = nullptr) const;

  // Gives the system back what the session keeps of outputs and of what its runs needed: once after
  // runs that took or gave at least kLarge, and after their outputs have gone, where neither has
  // happened since the last call. Safe beside runs; by one thread.
  void give_back_memory();
  static constexpr size_t kLarge = 4 << 20;  // bytes

 private:
  void count_large(std::vector<Tensor>& outputs) const;
  OrtPtr<OrtSession> session_;
  bool whole_process_ = false;  // it runs on threads beside the caller's
  FileSignature signature_;
  // Large runs, and outputs of theirs that have gone, which may outlive this.
  using Count = std::atomic<uint32_t>;
  const std::shared_ptr<Count> large_ = std::make_shared<Count>(0);
  uint32_t seen_ = 0, given_back_ = 0;  // of these, as of the last call and when it last gave
};

// The same of all that are loaded. Once every second or two, on one thread; takes milliseconds
// where there is something to give.
void give_back_model_memory();

}  // namespace fermata::engine
