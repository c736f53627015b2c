#include "policy/scheduler.h"

#include "base/check.h"

namespace fermata::policy {

KeyId Scheduler::add_service(const ServiceInfo& info) {
  FERMATA_CHECK(serves(kind_of(info)));
  return KeyId::none();
}

void Scheduler::learned(const Task&, const Estimate&, Time, Decisions&) {}

void Scheduler::planned(const Plan& plan, Time, Decisions&) {
  const auto* serving = std::get_if<Serving>(&plan);
  FERMATA_CHECK(serving == nullptr || workers_may_leave());
}

}  // namespace fermata::policy
