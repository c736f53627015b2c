#include "engine/execute/absence.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace fermata::engine {
namespace {

constexpr absl::string_view kLostPayload = "fermata.lost", kAwayPayload = "fermata.away";

}  // namespace

absl::Status absent(Absence how, absl::Status why) {
  if (how != Absence::kNone) {
    why.SetPayload(how == Absence::kLost ? kLostPayload : kAwayPayload, absl::Cord());
  }
  return why;
}

Absence absence_of(const absl::Status& status) {
  if (status.ok()) return Absence::kNone;
  if (status.GetPayload(kLostPayload).has_value()) return Absence::kLost;
  return status.GetPayload(kAwayPayload).has_value() ? Absence::kAway : Absence::kNone;
}

}  // namespace fermata::engine
