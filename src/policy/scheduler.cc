#include "policy/scheduler.h"

#include "base/check.h"

namespace fermata::policy {

KeyId Scheduler::add_application(const ApplicationInfo&) {
  FERMATA_CHECK(serves_applications());
  return KeyId::none();
}

void Scheduler::learned(const Task&, Evidence, Time, Decisions&) {
  FERMATA_CHECK(serves_applications());
}

}  // namespace fermata::policy
