#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <vector>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;

constexpr std::chrono::milliseconds kSearchEvery(10);  // where none was found: it takes O(open)

}  // namespace

bool HttpShard::evict(std::chrono::steady_clock::time_point now) {
  const auto close_first = [this](const auto& which) {
    const auto found = std::find_if(open.begin(), open.end(), which);
    if (found == open.end()) return false;
    const auto alive = *found;
    alive->close();
    return true;
  };
  return close_first([](const auto& connection) { return connection->idle(); }) ||
         close_first([now](const auto& connection) { return connection->takes_long_to_read(now); });
}

void HttpShard::sweep() {
  const auto now = std::chrono::steady_clock::now();
  const auto all = open;
  for (const auto& connection : all) {
    if (connection->overdue(now)) connection->give_up();
  }
}

bool HttpShard::end_stalled_body() {
  const auto earlier = [](const auto& a, const auto& b) { return a->heard() < b->heard(); };
  const auto now = std::chrono::steady_clock::now();
  if (now - searched < kSearchEvery) return false;
  std::vector<std::shared_ptr<HttpConnection>> stalled;
  for (const auto& connection : open) {
    if (connection->stalls(now)) stalled.push_back(connection);
  }
  if (stalled.empty()) {
    searched = now;
    return false;
  }
  (*std::min_element(stalled.begin(), stalled.end(), earlier))->give_up();
  return true;
}

bool HttpShard::end_stalled_body_elsewhere(std::weak_ptr<HttpConnection> waiting) {
  if (next == this) return false;
  // Whatever holds a connection must end with its own shard: what waits elsewhere does not.
  const auto ask = [this, waiting = std::move(waiting)](auto& self, HttpShard& other) -> void {
    const bool ended = &other != this && other.end_stalled_body();
    if (&other != this && !ended) {
      return net::post(other.next->io, [self, &next = *other.next] { self(self, next); });
    }
    net::post(io, [waiting, ended] {
      if (const auto connection = waiting.lock()) connection->go_on(ended);
    });
  };
  net::post(next->io, [ask, this] { ask(ask, *next); });
  return true;
}

void HttpShard::drain() {
  patient_until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(options.arrival_grace.nanos());
  const auto all = open;
  for (const auto& connection : all) connection->finish_when_idle();
}

void HttpShard::end() {
  const auto all = open;
  for (const auto& connection : all) connection->close();
}

}  // namespace fermata::serve
