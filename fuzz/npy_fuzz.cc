// Array files, and what is made of them: values, labelled points.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/status.h"
#include "estimate/labelled_points.h"
#include "model/npy.h"
#include "model/signature.h"
#include "model/tensor_values.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  const auto tensor = parse_npy({reinterpret_cast<const char*>(data), size}, "f.npy");
  if (!tensor.ok()) {
    FERMATA_CHECK(!tensor.status().message().empty());
    return 0;
  }
  FERMATA_CHECK(tensor->data.bytes.size() ==
                element_count(tensor->shape) * element_size(tensor->datatype));
  const auto floats = as_floats(*tensor);
  FERMATA_CHECK(floats.ok() && floats->size() == element_count(tensor->shape));
  uint32_t classes = 0;
  if (const auto labels = estimate::class_labels(*tensor, classes); labels.ok()) {
    for (const uint32_t label : *labels) FERMATA_CHECK(label < classes);
  }
  const auto points = estimate::labelled_points(*tensor, *tensor);
  FERMATA_CHECK(!points.ok() || points->features.size() == points->size() * points->dimensions);
  return 0;
}
