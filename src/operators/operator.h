#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/document.h"
#include "model/signature.h"
#include "model/tensor.h"

namespace fermata::operators {

// A small step of a pipeline between models, on the processor: it takes the tensors of one item
// and gives those of what it makes of it. Has no state: any number of threads may run it at once.
// Pictures are UINT8 [height, width, 3], red first; boxes are FP32 [n, 4, 2], corners (x, y)
// clockwise from the top left, in pixels of the picture.
class Operator {
 public:
  virtual ~Operator() = default;

  // What one item needs and gives, without a batch dimension; -1: any size.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  // Whether it turns an item into any number of items, none included: then every output leads with
  // how many they are, which `outputs` leaves out.
  bool fans_out() const { return fans_out_; }

  // `inputs` in the order of inputs(). INVALID_ARGUMENT names the tensor, what stands there and
  // what was expected. O(bytes in and out), for text boxes O(n log n).
  absl::StatusOr<std::vector<Tensor>> run(absl::Span<const Tensor> inputs) const;
  // How much work that is, before it is done: some nanoseconds each. Nothing is unpacked for it,
  // inputs that run() rejects have any. O(bytes in).
  virtual uint64_t work(absl::Span<const Tensor> inputs) const;

 protected:
  Operator(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs, bool fans_out = false);
  // The inputs have the datatypes, ranks, fixed sizes and bytes that inputs() says.
  virtual absl::StatusOr<std::vector<Tensor>> apply(absl::Span<const Tensor> inputs) const = 0;

 private:
  const std::vector<TensorSpec> inputs_, outputs_;
  const bool fans_out_;
};

// Where a file that an option names is: relative names are the configuration's.
using Resolve = absl::FunctionRef<std::string(const std::string&)>;

// The operator that a stage names, made of its other options; reads files that they name, so it
// may block. Null where an error has been recorded. `name` must be one of operator_names().
std::shared_ptr<const Operator> read_operator(std::string_view name, ObjectReader& options,
                                              Resolve resolve);
const std::vector<std::string_view>& operator_names();

}  // namespace fermata::operators
