// What the driver does alike for services of one variant, of any of several, and of some together.
#include "absl/algorithm/container.h"
#include "engine/schedule/driver_state.h"
#include "engine/services/compound.h"

namespace fermata::engine {

bool Driver::served(const Route& route) {
  if (route.compound == nullptr) return keys_.served(route.variant->id) != nullptr;
  return absl::c_all_of(route.compound->variants, [this](const auto& variant) {
    return keys_.served(variant->id) != nullptr;
  });
}

KeyId Driver::key_of(const Job& job) {
  const Route& route = job.route();
  if (route.compound != nullptr) return compounds_.intern(route.compound, job.shape());
  return keys_.intern(*keys_.served(route.variant->id), job.shape());
}

void Driver::task_added(KeyId key) {
  compounds_.has(key) ? compounds_.task_added(key) : keys_.task_added(key);
}

void Driver::task_ended(KeyId key) {
  compounds_.has(key) ? compounds_.task_ended(key) : keys_.task_ended(key);
}

}  // namespace fermata::engine
