#include "policy/batch/published.h"

#include <utility>

#include "policy/batch/queue_batcher.h"
#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

// What tells the policies apart.
struct Rules {
  bool defers = false, beta_lambda = false;
  bool by_window = true;  // drops; else only what cannot end even alone
  bool by_deadline = false;
};

class Published final : public QueueBatcher {
 public:
  Published(KeyId key, KeyInfo info, DelayBound delay, Rules rules)
      : QueueBatcher(key, std::move(info), delay), rules_(rules) {
    retarget();
  }

 protected:
  Cut cut(const Moment& m) override {
    return rules_.by_window ? window_cut(queue(), times(), target_, m)
                            : prefix_cut(queue(), times(), m);
  }
  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.rule = !rules_.defers                           ? StartRule::kAtOnce
                 : offer.items >= times().max_batch()     ? StartRule::kFullBatch
                 : rules_.beta_lambda && is_enough(offer) ? StartRule::kHeldLongEnough
                                                          : StartRule::kLatestStart;
    const bool waits = offer.rule == StartRule::kLatestStart;
    offer.start_at = waits ? deadline - times().run(offer.items + 1) : now;
    offer.urgency = rules_.by_deadline ? deadline : deadline - offer.run;
  }
  void retarget() override { target_ = target_size(times(), rate(), budget()); }

 private:
  bool is_enough(const Offer& offer) const {
    return offer.items > fixed_cost(times(), target_).seconds() * rate().per_second();
  }

  const Rules rules_;
  uint32_t target_ = 1;
};

std::unique_ptr<Batcher> make(KeyId key, KeyInfo info, DelayBound delay, Rules rules) {
  return std::make_unique<Published>(key, std::move(info), delay, rules);
}

}  // namespace

std::unique_ptr<Batcher> make_deferred(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {.defers = true});
}

std::unique_ptr<Batcher> make_deferred_beta_lambda(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {.defers = true, .beta_lambda = true});
}

std::unique_ptr<Batcher> make_deferred_prefix(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {.defers = true, .by_window = false});
}

std::unique_ptr<Batcher> make_eager(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {});
}

std::unique_ptr<Batcher> make_clockwork(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {.by_window = false});
}

std::unique_ptr<Batcher> make_edf(KeyId key, KeyInfo info, DelayBound delay) {
  return make(key, std::move(info), delay, {.by_window = false, .by_deadline = true});
}

}  // namespace fermata::policy
