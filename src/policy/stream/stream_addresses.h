#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/allowance.h"
#include "base/time.h"

namespace fermata::policy {

// How many clients of a stream service each address has, and how far the word of its new ones is
// believed: addresses whose clients say more than they send are believed less. Without an address
// (a simulation) all is believed. `now` never goes back; every call but forget_idle() is
// O(log addresses).
class StreamAddresses {
 public:
  // `believed_rps`: of all new clients of an address.
  explicit StreamAddresses(double believed_rps) : most_rps_(believed_rps) {}
  uint32_t clients(const std::string& address) const;
  // A client came that says to send so much; what of it is believed.
  double came(const std::string& address, double said_rps, Time now);
  // What was believed has turned out true.
  void proven(const std::string& address, double believed_rps);
  void left(const std::string& address);
  // Those without clients that are believed like new ones. O(addresses).
  void forget_idle(Time now);

 private:
  struct Address {
    uint32_t clients = 0;
    Allowance credit_rps;
  };

  const double most_rps_;
  std::map<std::string, Address> addresses_;
};

}  // namespace fermata::policy
