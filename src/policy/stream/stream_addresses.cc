#include "policy/stream/stream_addresses.h"

#include <algorithm>

namespace fermata::policy {
namespace {

constexpr double kCreditBack = 1.0;  // frames a second, each second

}  // namespace

uint32_t StreamAddresses::clients(const std::string& address) const {
  const auto known = addresses_.find(address);
  return known == addresses_.end() ? 0 : known->second.clients;
}

double StreamAddresses::came(const std::string& address, double said_rps, Time now) {
  if (address.empty()) return said_rps;
  Address& known =
      addresses_.try_emplace(address, Address{0, {most_rps_, kCreditBack, now}}).first->second;
  ++known.clients;
  const double believed = std::min(said_rps, known.credit_rps.left(now));
  known.credit_rps.take_anyway(believed, now);
  return believed;
}

void StreamAddresses::proven(const std::string& address, double believed_rps) {
  const auto known = addresses_.find(address);
  if (known != addresses_.end()) known->second.credit_rps.give_back(believed_rps);
}

void StreamAddresses::left(const std::string& address) {
  const auto known = addresses_.find(address);
  if (known != addresses_.end()) --known->second.clients;
}

void StreamAddresses::forget_idle(Time now) {
  std::erase_if(addresses_, [now](const auto& entry) {
    return entry.second.clients == 0 && entry.second.credit_rps.is_full(now);
  });
}

}  // namespace fermata::policy
