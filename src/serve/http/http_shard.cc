#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <vector>

#include "serve/http/http_connection.h"

namespace fermata::serve {
namespace {

namespace net = boost::asio;

constexpr std::chrono::milliseconds kSearchEvery(10);  // where none was found: it takes O(open)
constexpr int kEndedAtATime = 8;  // what a reply held comes back when its write has ended

}  // namespace

bool HttpShard::has_room_for(const HttpConnection& newcomer) {
  size_t all = count.load(std::memory_order_relaxed);
  for (const HttpShard* other = next; other != this; other = other->next) {
    all += other->count.load(std::memory_order_relaxed);
  }
  return entrance.lets_in(
      *newcomer.place(), all, options.max_connections, std::chrono::steady_clock::now(),
      [&](bool any_place, auto now) { return evict(&newcomer, now, any_place); });
}

bool HttpShard::evict(const HttpConnection* newcomer, std::chrono::steady_clock::time_point now,
                      bool any_place) {
  std::shared_ptr<HttpConnection> first;
  WhoGivesWay all(newcomer == nullptr ? nullptr : &*newcomer->place(), any_place, now);
  for (const auto& connection : open) {
    if (all.is_first(connection->in_the_way(now))) first = connection;
    if (all.is_sure()) break;
  }
  if (first != nullptr) first->close();
  return first != nullptr;
}

void HttpShard::sweep() {
  const auto now = std::chrono::steady_clock::now();
  const auto all = open;
  for (const auto& connection : all) {
    if (connection->overdue(now)) connection->give_up();
  }
  for (int i = 0; i < kEndedAtATime && options.budget != nullptr; ++i) {
    if (!options.budget->is_short() || !end_slowest(kSlow)) return;
  }
}

bool HttpShard::end_slowest(std::chrono::duration<double> than) {
  const auto slowest = find_slowest(than);
  if (slowest != nullptr) slowest->give_way();
  return slowest != nullptr;
}

std::shared_ptr<HttpConnection> HttpShard::find_slowest(std::chrono::duration<double> than) {
  const auto now = std::chrono::steady_clock::now();
  if (now - searched < kSearchEvery) return nullptr;
  std::shared_ptr<HttpConnection> slowest;
  double most = than.count();
  for (const auto& connection : open) {
    const double slowness = connection->slowness(now);
    if (slowness <= most) continue;
    most = slowness;
    slowest = connection;
  }
  if (slowest == nullptr && than.count() == 0) searched = now;
  return slowest;
}

bool HttpShard::end_slowest_elsewhere(std::weak_ptr<HttpConnection> waiting) {
  if (next == this) return false;
  // Whatever holds a connection must end with its own shard: what waits elsewhere does not.
  const auto ask = [this, waiting = std::move(waiting)](auto& self, HttpShard& other) -> void {
    const bool ended = &other != this && other.end_slowest();
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
  wait_for_rest_until =
      std::chrono::steady_clock::now() + std::chrono::nanoseconds(options.arrival_grace.nanos());
  const auto all = open;
  for (const auto& connection : all) connection->finish_when_idle();
}

void HttpShard::end() {
  const auto all = open;
  for (const auto& connection : all) connection->close();
}

}  // namespace fermata::serve
