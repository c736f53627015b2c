#include "policy/batch/work_conserving.h"

#include "policy/batch/window.h"

namespace fermata::policy {
namespace {

class Eager final : public QueueBatcher {
 public:
  Eager(KeyId key, KeyInfo info, DelayBound delay) : QueueBatcher(key, std::move(info), delay) {
    retarget();
  }

 protected:
  Cut cut(const Moment& m) override { return window_cut(queue(), times(), target_, m); }
  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.start_at = now;
    offer.urgency = deadline - offer.run;
  }
  void retarget() override { target_ = target_size(times(), rate(), budget()); }

 private:
  uint32_t target_ = 1;
};

class Clockwork final : public QueueBatcher {
 public:
  using QueueBatcher::QueueBatcher;

 protected:
  Cut cut(const Moment& m) override { return prefix_cut(queue(), times(), m); }
  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.start_at = now;
    offer.urgency = deadline - offer.run;
  }
};

class Edf final : public QueueBatcher {
 public:
  using QueueBatcher::QueueBatcher;

 protected:
  Cut cut(const Moment& m) override { return prefix_cut(queue(), times(), m); }
  void schedule(Time deadline, Time now, Offer& offer) override {
    offer.start_at = now;
    offer.urgency = deadline;
  }
};

}  // namespace

std::unique_ptr<Batcher> make_eager(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Eager>(key, std::move(info), delay);
}
std::unique_ptr<Batcher> make_clockwork(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Clockwork>(key, std::move(info), delay);
}
std::unique_ptr<Batcher> make_edf(KeyId key, KeyInfo info, DelayBound delay) {
  return std::make_unique<Edf>(key, std::move(info), delay);
}

}  // namespace fermata::policy
