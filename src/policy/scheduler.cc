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

KeyId Scheduler::add_ensemble(const EnsembleInfo&) {
  FERMATA_CHECK(serves_ensembles());
  return KeyId::none();
}

void Scheduler::scored(const Task&, const Difficulty&, Time, Decisions&) {
  FERMATA_CHECK(serves_ensembles());
}

void Scheduler::failed(WorkerId, const Task&) { FERMATA_CHECK(serves_ensembles()); }

}  // namespace fermata::policy
