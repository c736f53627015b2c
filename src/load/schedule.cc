#include "load/schedule.h"

#include "base/check.h"

namespace fermata::load {

Schedule::Schedule(const LoadSpec& spec, const std::vector<size_t>& records, Time start) {
  FERMATA_CHECK(records.size() == spec.services.size());
  for (uint32_t i = 0; i < spec.services.size(); ++i) {
    const ServiceLoad& service = spec.services[i];
    FERMATA_CHECK(service.arrivals.has_value() && records[i] > 0);
    sources_.push_back(
        {simulate::Arrivals(*service.arrivals, service.rate_rps, start, Random(spec.seed, i)),
         static_cast<uint32_t>(records[i])});
    pull(i);
  }
}

std::optional<Sending> Schedule::next() {
  if (due_.empty()) return std::nullopt;
  const Due due = due_.top();
  due_.pop();
  Source& source = sources_[due.service];
  const Sending sending{due.at, due.at, due.service, source.next_record};
  source.next_record = (source.next_record + 1) % source.records;
  pull(due.service);
  return sending;
}

void Schedule::pull(uint32_t service) {
  const Time at = sources_[service].arrivals.next();
  if (!at.is_infinite()) due_.push({at, service});
}

}  // namespace fermata::load
