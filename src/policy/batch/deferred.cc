#include "policy/batch/deferred.h"

#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

class Deferred : public QueueBatcher {
 public:
  Deferred(KeyId key, KeyInfo info, DelayBound delay) : QueueBatcher(key, std::move(info), delay) {
    retarget();
  }

 protected:
  Cut cut(const Moment& m) override { return window_cut(queue(), times(), target_, m); }

  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.start_at =
        offer.items < times().max_batch() ? deadline - times().run(offer.items + 1) : now;
    offer.urgency = deadline - offer.run;
  }

  void retarget() override { target_ = target_size(times(), rate(), budget()); }

  uint32_t target() const { return target_; }

 private:
  uint32_t target_ = 1;
};

class DeferredBetaLambda final : public Deferred {
 public:
  using Deferred::Deferred;

 protected:
  void schedule(Time deadline, Time now, Offer& offer) override {
    Deferred::schedule(deadline, now, offer);
    const double beta_s = fixed_cost(times(), target()).seconds();
    if (offer.items > beta_s * rate().per_second()) offer.start_at = now;
  }
};

class DeferredPrefix final : public Deferred {
 public:
  using Deferred::Deferred;

 protected:
  Cut cut(const Moment& m) override { return prefix_cut(queue(), times(), m); }
};

}  // namespace

std::unique_ptr<Batcher> make_deferred(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Deferred>(key, std::move(info), delay);
}
std::unique_ptr<Batcher> make_deferred_beta_lambda(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<DeferredBetaLambda>(key, std::move(info), delay);
}
std::unique_ptr<Batcher> make_deferred_prefix(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<DeferredPrefix>(key, std::move(info), delay);
}

}  // namespace fermata::policy
