#include "gateway/addresses.h"

#include <netdb.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace fermata::gateway {
namespace {
constexpr std::chrono::seconds kLookEvery(1);
}

absl::StatusOr<std::vector<std::string>> addresses_of(const std::string& name) {
  const size_t colon = name.rfind(':');
  if (colon == 0 || colon == std::string::npos || colon + 1 == name.size()) {
    return invalid("'{}', expected HOST:PORT", name);
  }
  std::string host = name.substr(0, colon);
  const std::string port = name.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); failed != 0) {
    return error(absl::StatusCode::kUnavailable, "'{}': {}", name, gai_strerror(failed));
  }
  const absl::Cleanup free = [found] { freeaddrinfo(found); };
  std::vector<std::string> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char address[NI_MAXHOST] = {}, service[NI_MAXSERV] = {};
    if (getnameinfo(each->ai_addr, each->ai_addrlen, address, sizeof(address), service,
                    sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      continue;
    }
    const char* form = each->ai_family == AF_INET6 ? "[{}]:{}" : "{}:{}";
    addresses.push_back(fmt::format(fmt::runtime(form), address, service));
  }
  absl::c_sort(addresses);
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

Addresses::Addresses(std::vector<std::string> names, Tell tell)
    : names_(std::move(names)), tell_(std::move(tell)), known_(names_.size()) {
  look();
  thread_ = std::thread([this] {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kLookEvery, [this] { return stopping_; })) look();
  });
}

Addresses::~Addresses() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Addresses::look() {
  std::vector<std::string> all;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (auto now = addresses_of(names_[i]); now.ok()) known_[i] = *std::move(now);
    all.insert(all.end(), known_[i].begin(), known_[i].end());
  }
  if (all == told_) return;
  told_ = all;
  spdlog::info("servers: {}", absl::StrJoin(all, ", "));
  tell_(all);
}

}  // namespace fermata::gateway
