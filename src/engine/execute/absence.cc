#include "engine/execute/absence.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

namespace fermata::engine {
namespace {

constexpr std::pair<Absence, absl::string_view> kPayloads[] = {
    {Absence::kLost, "fermata.lost"}, {Absence::kAway, "fermata.away"},
    {Absence::kCut, "fermata.cut"},   {Absence::kHostLost, "fermata.host_lost"},
    {Absence::kLate, "fermata.late"},
};

}  // namespace

absl::Status absent(Absence how, absl::Status why) {
  for (const auto& [each, payload] : kPayloads) {
    if (each == how) why.SetPayload(payload, absl::Cord());
  }
  return why;
}

Absence absence_of(const absl::Status& status) {
  if (status.ok()) return Absence::kNone;
  for (const auto& [how, payload] : kPayloads) {
    if (status.GetPayload(payload).has_value()) return how;
  }
  return Absence::kNone;
}

}  // namespace fermata::engine
