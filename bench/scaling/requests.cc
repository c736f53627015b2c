#include "base/check.h"
#include "engine/admission.h"
#include "engine/execute/gather.h"
#include "scaling/cases.h"

namespace fermata::scaling {

void add_request_cases(Cases& cases) {
  cases.push_back({"admit_strings", 5'000, [](size_t n) {
                     Signature signature{.batches = true, .max_batch = 8};
                     signature.inputs.push_back({"x", DataType::kBytes, {1}, {1}});
                     engine::InferRequest request;
                     request.inputs.push_back({"x",
                                               DataType::kBytes,
                                               {static_cast<int64_t>(n), 1},
                                               payload_of(std::vector<uint32_t>(n))});
                     measured([&] { FERMATA_CHECK(engine::admit(request, signature).ok()); });
                   }});
  cases.push_back(
      {"join_parts", 2'000, [](size_t n) {
         const Tensor part{"y", DataType::kFp32, {1, 1}, payload_of(std::vector<float>(1))};
         const std::vector<std::vector<Tensor>> parts(n, {part});
         measured([&] { FERMATA_CHECK(engine::join(parts).ok()); });
       }});
}

}  // namespace fermata::scaling
