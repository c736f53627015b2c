#pragma once

#include <concurrentqueue.h>

#include <atomic>
#include <cstddef>
#include <iterator>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "engine/threads/latest_slot.h"
#include "engine/threads/parker.h"
#include "policy/pool/pool_ranker.h"
#include "policy/scheduler.h"

// What crosses between the threads of the sharded scheduler (Symphony 4.5).
// Every queue has one thread that takes and any number that put; putting never
// blocks and never takes a lock.
namespace fermata::engine {

template <class T>
using Inbox = moodycamel::ConcurrentQueue<T>;

using OfferSlot = LatestSlot<policy::Offer>;  // of one key: batcher to ranker

// Where an inbox puts what it gives: `take` has each before it leaves the inbox.
template <class Take>
struct TakeEach {
  using iterator_category = std::output_iterator_tag;
  using value_type = void;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = void;

  Take* take;

  TakeEach& operator*() { return *this; }
  TakeEach& operator++() { return *this; }
  TakeEach operator++(int) { return *this; }
  template <class T>
  TakeEach& operator=(T&& given) {
    (*take)(given);
    return *this;
  }
};

// Takes at most so many; 0: there was none.
template <class T, class Take>
size_t drain_some(Inbox<T>& inbox, size_t most, Take take) {
  return inbox.try_dequeue_bulk(TakeEach<Take>{&take}, most);
}

// Takes all that is in an inbox; O(1) when it is empty.
template <class T, class Take>
bool drain(Inbox<T>& inbox, Take take) {
  if (inbox.size_approx() == 0) return false;
  bool any = false;
  while (inbox.try_dequeue_bulk(TakeEach<Take>{&take}, 32) > 0) any = true;
  return any;
}

class ModelShard;
using ShardCommand = absl::AnyInvocable<void(ModelShard&, Time, policy::Decisions&)>;
using RankCommand =
    absl::AnyInvocable<void(policy::PoolRanker&, Time, std::vector<policy::Grant>&)>;

struct ShardInbox {
  struct Message {
    policy::Task task;
    bool withdraw = false;
  };
  Inbox<Message> messages;
  Inbox<policy::Grant> grants;
  Inbox<ShardCommand> commands;  // rare: keys and profiles
  Parker parker;                 // of the model thread; unpark after putting
};

struct RankInbox {
  Inbox<OfferSlot*> offers;  // slots with something new
  Inbox<policy::Answer> answers;
  Inbox<WorkerId> freed;
  Inbox<RankCommand> commands;  // rare: keys and workers
  Parker parker;                // of the rank thread
  // The view of the pool that comes back: when the first worker is expected to
  // be free, in nanoseconds on the driver's clock; some milliseconds old.
  std::atomic<int64_t> first_free{0};
};

}  // namespace fermata::engine
