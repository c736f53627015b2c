#include "engine/execute/absence.h"

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace fermata::engine {
namespace {

constexpr absl::string_view kLostPayload = "fermata.lost", kAwayPayload = "fermata.away",
                            kCutPayload = "fermata.cut", kHostLostPayload = "fermata.host_lost";

absl::string_view payload_of(Absence how) {
  switch (how) {
    case Absence::kLost:
      return kLostPayload;
    case Absence::kAway:
      return kAwayPayload;
    case Absence::kHostLost:
      return kHostLostPayload;
    default:
      return kCutPayload;
  }
}

}  // namespace

absl::Status absent(Absence how, absl::Status why) {
  if (how != Absence::kNone) why.SetPayload(payload_of(how), absl::Cord());
  return why;
}

Absence absence_of(const absl::Status& status) {
  if (status.ok()) return Absence::kNone;
  for (const Absence how : {Absence::kLost, Absence::kAway, Absence::kCut, Absence::kHostLost}) {
    if (status.GetPayload(payload_of(how)).has_value()) return how;
  }
  return Absence::kNone;
}

}  // namespace fermata::engine
