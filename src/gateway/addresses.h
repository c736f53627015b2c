#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

namespace fermata::gateway {

// What HOST:PORT stands for now: each of the name's addresses, as ADDRESS:PORT (IPv6 in brackets).
// INVALID_ARGUMENT where it is not of that form, UNAVAILABLE where the name is not known. Blocks.
absl::StatusOr<std::vector<std::string>> addresses_of(const std::string& name);

// Looks names up now and every second, on a thread of its own. A name that cannot be looked up
// keeps the addresses that it had.
class Addresses {
 public:
  using Tell = std::function<void(const std::vector<std::string>&)>;  // all, when they have changed
  Addresses(std::vector<std::string> names, Tell tell);
  ~Addresses();
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;

 private:
  void look();

  const std::vector<std::string> names_;
  const Tell tell_;
  std::vector<std::vector<std::string>> known_;  // by name
  std::vector<std::string> told_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace fermata::gateway
