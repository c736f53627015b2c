#pragma once

#include <memory>
#include <vector>

#include "policy/batcher.h"
#include "policy/pool/declined_types.h"
#include "policy/pool/view.h"
#include "policy/service.h"

namespace fermata::policy {

// What, and with whom: the waiting tasks of all services of one kind of a pool together, each of
// which batches of several keys may answer. To the ranker it is one offer among the others, so that
// services of every kind share the workers by urgency; which keys run, and for whom, is decided
// when a worker is granted. What it knows of keys and workers it reads in the pool's view.
class SharedBatcher : public Batcher {
 public:
  SharedBatcher(KeyId key, DelayBound delay, const PoolView& pool) : pool_(pool), delay_(delay) {
    offer_.key = key;
    offer_.at_any_time = true;
  }
  virtual void add_service(KeyId key, const ServiceInfo& info) = 0;
  virtual void remove_service(KeyId key) = 0;  // nothing of it may wait
  void add_worker(uint32_t type) { declined_.add_worker(type); }
  // That of a key which services may name. True where its offer may have changed.
  virtual bool latency_changed(KeyId, Time /*now*/) { return false; }

  virtual void learned(const Task& task, const Estimate& estimate, Time now, Decisions& out) = 0;
  // Adds waiting tasks to a batch that another batcher has bound, so that it still ends by `limit`.
  virtual void join_other(Batch& batch, Time limit, const LatencyTable& latency, Time now) = 0;
  // Every batch of the pool, before the view has it; `own`: this batcher has bound it. Batch::load
  // of one that it binds says whether its times include loading.
  virtual void bound(const Batch& batch, bool own, Time now) = 0;
  // Before the view knows that it has. True where the offer may have changed.
  virtual bool ended(const BatchEnd&, Time /*now*/, Decisions&) { return false; }

  virtual uint64_t waiting_items(KeyId key) const = 0;
  // What its last decisions were made from, the newest first, behind what is there.
  virtual void add_problems(std::vector<Problem>& to) const = 0;

  using Batcher::waiting_items;
  void set_latency(LatencyByType, Time, Decisions&) final {}
  void set_delay_bound(DelayBound bound) override { delay_ = bound; }
  const Offer& offer() const final { return offer_; }
  Answer granted(const Grant& grant, Time now, Decisions& out) final;

 protected:
  // Whether it has bound a batch, its first, that starts then.
  virtual bool decide(const Grant& grant, Time start, Time now, Decisions& out) = 0;
  // What the pool's account has to know of its services. O(services).
  virtual Outlook expected(Time now) = 0;
  // Makes its offer anew.
  virtual void update(Time now) = 0;
  // What is alike in every offer.
  void renew(Time now, size_t items);
  // Makes the offer, which is renewed, one of nothing with a deadline: an idle worker is theirs as
  // soon as nobody else wants it, in this order. One that was declined is asked again later, when
  // asks_again() says.
  void set_best_effort(Time arrival, Time now);
  Time asks_again() const {
    return offer_.best_effort && offer_.items == 0 ? declined_.from() : Time::infinite();
  }
  // Of those that wait with a deadline, and the first and last moments to start them.
  void set_waiting(size_t items, Time first_by, Time last_by);
  // How many of a batch's items that would end then it may have; at least one. As few as make
  // nobody late who needs the worker before.
  uint32_t fitting(const LatencyTable& latency, uint32_t items, Time finish) const;

  const PoolView& pool_;
  DelayBound delay_;
  Offer offer_;
  DeclinedTypes declined_;

 private:
  // For the batch that is decided.
  struct Granted {
    uint32_t type = 0;
    Time start;
    Time until = Time::infinite();      // it must not run on
    Time needed_by = Time::infinite();  // others may be late from then on, until
    Time next;                          // another worker is free
  };

  Granted granted_;
  uint64_t epoch_ = 0;
  Time expected_until_;  // see Outlook
};

// Those of the default, by kind.
std::unique_ptr<SharedBatcher> make_shared_batcher(Kind kind, KeyId key, DelayBound delay,
                                                   const PoolView& pool,
                                                   const ServiceSettings& settings);

}  // namespace fermata::policy
