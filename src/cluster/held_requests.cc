#include "cluster/held_requests.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "engine/execute/gather.h"

namespace fermata::cluster {
namespace {

// After its deadline, which the scheduler keeps; this is for when nothing is heard of that.
constexpr Duration kPastDeadline = Duration::millis(25);
// From the scheduler's word to the outputs: a worker sends them first.
constexpr Duration kOutputsCome = Duration::millis(500);
constexpr uint32_t kMostAsked = 5;  // times, for outputs that do not come

}  // namespace

// What it overlaps was of another division of the request, by an earlier scheduler.
void HeldRequests::Held::put(Piece piece) {
  const uint32_t end = piece.first + piece.items;
  std::erase_if(pieces, [&](const Piece& other) {
    const bool apart = other.first >= end || other.first + other.items <= piece.first;
    if (!apart) items -= other.items;
    return !apart;
  });
  items += piece.items;
  pieces.push_back(std::move(piece));
}

// Who asks does so beyond the lock: that may take a while.
void HeldRequests::Held::is_asked(uint64_t of_session) {
  session = of_session;
  fetched = false;
  told.reset();
  again = again || asked > 0;
  ++asked;
}

void HeldRequests::add(uint64_t key, Request request, uint64_t session, Ask ask) {
  auto held = std::make_shared<Held>();
  held->of = std::move(request);
  if (session != 0) held->is_asked(session);
  Shard& of = shard(key);
  {
    const std::lock_guard lock(of.mutex);
    of.held.emplace(key, held);
  }
  if (session != 0) ask(key, held->of);
}

void HeldRequests::ask_again(uint64_t session, Ask ask) {
  for (Shard& of : shards_) {
    Some some;
    {
      const std::lock_guard lock(of.mutex);
      for (const auto& [key, held] : of.held) {
        if (held->session == session) continue;
        held->is_asked(session);
        held->asked = 1;
        some.emplace_back(key, held);
      }
    }
    for (const auto& [key, held] : some) ask(key, held->of);
  }
}

void HeldRequests::lost(uint64_t session) {
  for (Shard& of : shards_) {
    std::vector<std::shared_ptr<Held>> whole;
    {
      const std::lock_guard lock(of.mutex);
      for (auto it = of.held.begin(); it != of.held.end();) {
        Held& held = *it->second;
        if (held.session == session) held.session = 0;
        if (held.session != 0 || !held.whole()) {
          ++it;
          continue;
        }
        whole.push_back(std::move(it->second));
        it = of.held.erase(it);
      }
    }
    for (const auto& held : whole) answer(*held);
  }
}

absl::StatusOr<HeldRequests::Wanted> HeldRequests::fetch(uint64_t key, uint32_t first,
                                                         uint32_t items) {
  std::shared_ptr<Held> held;
  {
    Shard& of = shard(key);
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) {
      return error(absl::StatusCode::kCancelled, "its frontend waits for it no more");
    }
    held = it->second;
    held->fetched = true;
  }
  const engine::InferRequest& request = held->of.request;
  Wanted wanted{.parameters = request.parameters};
  for (const Tensor& tensor : request.inputs) {  // which nothing changes
    Tensor& own = wanted.inputs.emplace_back(tensor);
    if (!held->of.variant->signature.batches) continue;
    ASSIGN_OR_RETURN(own.data, engine::rows(tensor, first, items));
    own.shape[0] = items;
  }
  return wanted;
}

bool HeldRequests::take(uint64_t key, uint32_t first, uint32_t items, Read read) {
  Shard& of = shard(key);
  std::shared_ptr<Held> held;
  {
    const std::lock_guard lock(of.mutex);
    if (const auto it = of.held.find(key); it != of.held.end()) held = it->second;
  }
  if (held == nullptr) return false;
  const uint64_t all = held->of.admitted.items;
  absl::StatusOr<std::vector<Tensor>> outputs = read(held->of);
  if (outputs.ok() && (items < 1 || uint64_t{first} + items > all)) {
    outputs = internal("{} items from {} on, of {}", items, first, all);
  }
  {
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) return false;
    if (outputs.ok()) {
      held->put({first, items, *std::move(outputs)});
      // Who has been asked again, or has no scheduler, need not hear of the run that this is of.
      const bool heard = held->told.has_value() || held->again || held->session == 0;
      if (!held->whole() || !heard) return true;
    }
    of.held.erase(it);
  }
  if (!outputs.ok()) {
    refuse(*held, internal("a worker's wrong answer: {}", message(outputs.status())),
           engine::Outcome::kFailed);
  } else {
    answer(*held);
  }
  return true;
}

void HeldRequests::told(uint64_t key, engine::ReplyPart reply, Time now) {
  Shard& of = shard(key);
  std::shared_ptr<Held> held;
  {
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) return;
    it->second->told = std::move(reply);
    it->second->told_at = now;
    if (it->second->told->status.ok() && !it->second->whole()) return;
    held = std::move(it->second);
    of.held.erase(it);
  }
  answer(*held);
}

bool HeldRequests::cancel(uint64_t key) {
  Shard& of = shard(key);
  std::shared_ptr<Held> held;
  {
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) return false;
    held = std::move(it->second);
    of.held.erase(it);
  }
  refuse(*held, error(absl::StatusCode::kCancelled, "the client has gone"),
         engine::Outcome::kCancelled);
  return true;
}

void HeldRequests::look(Time now, uint64_t session, Ask ask,
                        absl::FunctionRef<void(uint64_t key)> gave_up) {
  for (Shard& of : shards_) {
    Some ended, missed;
    {
      const std::lock_guard lock(of.mutex);
      for (auto it = of.held.begin(); it != of.held.end();) {
        Held& held = *it->second;
        // Of what runs a scheduler knows whether its worker is there still.
        const bool runs = held.fetched && held.session != 0;
        const bool late = !held.told && !runs && now - held.of.deadline > kPastDeadline &&
                          !held.of.deadline.is_infinite();
        const bool missing = held.told && now - held.told_at > kOutputsCome;
        const bool asks_again = missing && held.asked < kMostAsked && now < held.of.deadline;
        if (late) {
          ended.emplace_back(it->first, std::move(it->second));
          it = of.held.erase(it);
          continue;
        }
        if (session != 0 && (held.session != session || asks_again)) {
          held.is_asked(session);
          missed.emplace_back(*it);
        } else if (missing && (session != 0 || now >= held.of.deadline)) {
          ended.emplace_back(it->first, std::move(it->second));
          it = of.held.erase(it);
          continue;
        }
        ++it;
      }
    }
    for (const auto& [key, held] : missed) ask(key, held->of);
    for (const auto& [key, held] : ended) {
      gave_up(key);
      if (held->told) {
        refuse(*held, error(absl::StatusCode::kUnavailable, "the worker's outputs did not come"),
               engine::Outcome::kUnavailable);
      } else {
        refuse(*held,
               error(absl::StatusCode::kDeadlineExceeded,
                     "no scheduler has said in time what becomes of it"),
               engine::Outcome::kRejectedDeadline);
      }
    }
  }
}

void HeldRequests::end_all(const absl::Status& why) {
  for (Shard& of : shards_) {
    std::unordered_map<uint64_t, std::shared_ptr<Held>> all;
    {
      const std::lock_guard lock(of.mutex);
      all.swap(of.held);
    }
    for (const auto& [key, held] : all) refuse(*held, why, engine::Outcome::kUnavailable);
  }
}

size_t HeldRequests::size() const {
  size_t sum = 0;
  for (const Shard& of : shards_) {
    const std::lock_guard lock(of.mutex);
    sum += of.held.size();
  }
  return sum;
}

void HeldRequests::answer(Held& held) {
  engine::ReplyPart reply = held.told ? *std::move(held.told) : engine::ReplyPart();
  if (reply.version.empty()) reply.version = held.of.variant->version;
  reply.model = held.of.request.service;
  reply.id = held.of.request.id;
  if (reply.status.ok()) {
    std::sort(held.pieces.begin(), held.pieces.end(),
              [](const Piece& a, const Piece& b) { return a.first < b.first; });
    std::vector<std::vector<Tensor>> outputs;
    for (Piece& piece : held.pieces) outputs.push_back(std::move(piece.outputs));
    auto joined = outputs.size() == 1 ? std::move(outputs.front()) : engine::join(outputs);
    if (joined.ok()) {
      reply.outputs = *std::move(joined);
    } else {
      reply.status = joined.status();
      reply.why.outcome = engine::Outcome::kFailed;
    }
  }
  held.of.bytes = HeldBytes();
  held.of.reply(std::move(reply));
}

void HeldRequests::refuse(Held& held, absl::Status why, engine::Outcome outcome) {
  held.told = engine::ReplyPart{.status = std::move(why), .why = {.outcome = outcome}};
  answer(held);
}

}  // namespace fermata::cluster
