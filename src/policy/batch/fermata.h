#pragma once

#include <memory>

#include "policy/batcher.h"

namespace fermata::policy {

// The default. As `deferred` it holds a batch back so that more can join, and
// drops by window; but it starts earlier where waiting buys little or costs
// much, and gives up fewer heads while there is no overload.
//
// A batch wants to start before its latest start by the largest of
//  - a tenth of its run time, for the moment a worker takes to come free;
//  - the time that offers of the pool lately waited for a worker (Grant::wait):
//    who waits longer than others loses to them, so the margin is the pool's;
//  - the time in which λ would bring so many more that a worker second serves a
//    ninth more items. A model with little to gain from batching thus starts at
//    once, one with much waits, with no setting for either;
//  - the time that one in a thousand of those that come will find waiting before it (Load::burst in
//    policy/pool/account.h), for the bursts in which requests come and what the workers can spare:
//    who has waited for a larger batch has nothing left to survive such a moment, and in a pool of
//    few workers there are many of these;
//  - of all the time since its head came, the share of the worker time that goes to others' batches
//    that begin whenever a worker is free (Offer::at_any_time).
// The last two vanish from a load (Grant::load) of 0.8 to 0.95, where the pool needs its largest
// batches, but for the square of the share of its efficiency that a batch of one has; and for a
// model of which the fixed cost of a batch takes 0.4 to 0.5 of what a deadline leaves beside it,
// since an early start costs one more of these. They are less, in proportion, for a batch that runs
// longer than requests of other keys can wait. It never wants to start before its head came. It
// waits for nobody: a batch that λ will not enlarge by one item before its latest start wants to
// start now, so that a lone request on an idle pool does; so does one where the pool would bear
// each item alone with a quarter of its time (Grant::singly) and others can wait for as long as it
// runs, and one that nobody joins while so many wait (estimate/growth.h). Where others can wait
// that long, none waits for mates for more than four of its runs: who starts then keeps a quarter
// of one worker busy, and what comes while all are busy joins it anyway. One whose head says when
// (Task::start_from) starts then. One whose head has had worker time before (Task::begun) is due as
// any other, and then served before those that have had none: the time would be lost with it. A
// head is dropped only for a batch as large as those of late, and no larger than what is within a
// tenth of the target's efficiency; beside an idle worker (see()) not even for that. Where a batch
// makes requests of others late (Grant::harm), it is of the size at which an item costs least.
//
// Overload, a share of 20 % of the model's last 1024 requests or so refused, turns both
// back, in proportion: no margin, and the full target. That is what `deferred`
// does, and it is stable: the largest batches bear the largest load.
std::unique_ptr<Batcher> make_fermata(KeyId key, KeyInfo info, DelayBound delay);

}  // namespace fermata::policy
