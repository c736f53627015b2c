#include "engine/schedule/learn.h"

#include <utility>

#include "engine/composite/ensemble_service.h"
#include "engine/composite/variants_service.h"

namespace fermata::engine {
namespace {

// Items of one request that are looked at for evidence: a larger one would keep others waiting.
constexpr uint32_t kMostLookedAt = 256;

}  // namespace

std::shared_ptr<const std::vector<Tensor>> worth_a_look(const Route& route,
                                                        const InferRequest& request,
                                                        uint32_t items) {
  const bool scored = route.ensemble != nullptr && route.ensemble->model->predicts();
  const bool compared =
      route.variants != nullptr && route.variants->evidence != nullptr && items <= kMostLookedAt;
  if (request.elsewhere != nullptr || (!scored && !compared)) return nullptr;
  return std::make_shared<const std::vector<Tensor>>(request.inputs);
}

void learn(const Route& route, std::shared_ptr<const std::vector<Tensor>> inputs, uint32_t items,
           TellEstimates tell) {
  if (inputs == nullptr) return;
  if (route.ensemble != nullptr) {
    return route.ensemble->model->score(std::move(inputs), items,
                                        [tell = std::move(tell)](const auto& by_item) mutable {
                                          tell({by_item.begin(), by_item.end()});
                                        });
  }
  route.variants->evidence->submit(std::move(inputs),
                                   [tell = std::move(tell)](const auto& found) mutable {
                                     if (found) tell({found->counts.begin(), found->counts.end()});
                                   });
}

}  // namespace fermata::engine
