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
  const size_t most = options.max_connections, part = most / kPartForFew;
  const size_t own = newcomer.place()->count();
  size_t all = count.load(std::memory_order_relaxed);
  for (const HttpShard* other = next; other != this; other = other->next) {
    all += other->count.load(std::memory_order_relaxed);
  }
  return all < (own > part ? most - part : most) || evict(&newcomer);
}

bool HttpShard::evict(const HttpConnection* newcomer, std::chrono::steady_clock::time_point now) {
  using InTheWay = HttpConnection::InTheWay;
  std::shared_ptr<HttpConnection> first;
  auto of_first = InTheWay::kIdleOfFew;
  double most = 0;
  const size_t own = newcomer == nullptr ? SIZE_MAX : newcomer->place()->count();
  for (const auto& connection : open) {
    InTheWay how = connection->in_the_way(now);
    const size_t count = connection->place()->count();
    const bool is_own =
        newcomer != nullptr && connection->place()->has_address_of(*newcomer->place());
    const bool is_of_more = !is_own && count > own;
    if (how == InTheWay::kBusy && !is_of_more) continue;
    if (how == InTheWay::kIdle && !is_of_more) how = InTheWay::kIdleOfFew;
    if (how > of_first) continue;
    const bool is_of_fewer = newcomer != nullptr && !is_own && count < own;
    if (is_of_fewer && (how > InTheWay::kSlow || connection->is_new(now))) continue;
    const double weight =
        how == InTheWay::kSlow ? connection->slowness(now) : static_cast<double>(count);
    if (how == of_first && weight <= most) continue;
    first = connection;
    of_first = how;
    most = weight;
    if (how <= InTheWay::kNeverAsked && is_own) break;  // as in a flood of newcomers
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
