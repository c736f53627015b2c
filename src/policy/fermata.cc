#include "policy/fermata.h"

#include "policy/window.h"

namespace fermata::policy {
namespace {

class Fermata final : public QueueBatcher {
 public:
  Fermata(KeyId key, KeyInfo info, DelayBound delay) : QueueBatcher(key, std::move(info), delay) {
    retarget();
  }

 protected:
  Cut cut(const Moment& m) override { return window_cut(queue(), times(), target_, m); }

  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.start_at =
        offer.items < times().max_batch() ? deadline - times().run(offer.items + 1) - margin_ : now;
    offer.urgency = deadline - offer.run;
  }

  void retarget() override { target_ = target_size(times(), rate(), budget()); }
  void learned(const Grant& grant) override { margin_ = grant.wait; }

 private:
  uint32_t target_ = 1;
  Duration margin_;
};

}  // namespace

std::unique_ptr<Batcher> make_fermata(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Fermata>(key, std::move(info), delay);
}

}  // namespace fermata::policy
