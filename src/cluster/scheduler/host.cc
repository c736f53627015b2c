#include "cluster/scheduler/host.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "cluster/scheduler/remote_executor.h"
#include "cluster/wire/beats.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/model_bytes.h"

namespace fermata::cluster {
namespace {

constexpr Duration kAttaching = Duration::seconds(10);
constexpr Duration kLoadingThere = Duration::seconds(300);
constexpr int64_t kClocksDiffer = 100;  // in so much time, by one at most

}  // namespace

Host::Host(std::string name, std::string address, uint64_t session, Duration silence, Slots slots)
    : name_(std::move(name)),
      address_(std::move(address)),
      session_(session),
      silence_(silence),
      slots_(std::move(slots)),
      channels_(slots_.size()) {}

absl::StatusOr<bool> Host::attach(const Attach& attach, std::shared_ptr<Channel> channel) {
  const std::lock_guard lock(mutex_);
  if (!cause_.empty()) return invalid("its session is over");
  if (!attach.loads() && attach.slot() >= channels_.size()) {
    return invalid("slot {}, expected less than {}", attach.slot(), channels_.size());
  }
  std::shared_ptr<Channel>& place = attach.loads() ? loads_ : channels_[attach.slot()];
  if (place != nullptr) return invalid("a connection that it has already");
  channel->expect_by(Time::infinite());
  place = std::move(channel);
  return ++attached_ == slots_.size() + 1;
}

void Host::join() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const absl::Status joined = slots_[slot]->join(shared_from_this(), slot, channels_[slot]);
    if (!joined.ok()) return end("refused", message(joined));
  }
  {
    const std::lock_guard lock(mutex_);
    joined_ = cause_.empty();
    if (!joined_) return;
  }
  spdlog::info("host '{}' at {} has joined with {} workers", name_, address_, slots_.size());
}

absl::StatusOr<Profile> Host::load(const engine::Variant& variant, uint32_t slot) {
  Message message;
  Load& load = *message.mutable_load();
  load.set_variant(variant.id.value());
  load.set_slot(slot);
  load.set_model(variant.model);
  load.set_version(std::stoll(variant.version));
  load.set_bytes(model_bytes(variant.file));
  load.set_signature(signature_text(variant.signature));
  const std::lock_guard one_at_a_time(loading_);
  loads_->expect_by(monotonic_now() + kLoadingThere);
  RETURN_IF_ERROR(loads_->send(message));
  ASSIGN_OR_RETURN(const Frame answer, loads_->receive(kLoadLimits));
  loads_->expect_by(Time::infinite());
  const Loaded& loaded = answer.message.loaded();
  if (!answer.message.has_loaded()) return invalid("a message that is no answer to a load");
  if (loaded.code() != 0) {
    return internal("it cannot load model '{}', version {}: {}", variant.model, variant.version,
                    loaded.why());
  }
  if (loaded.profile().empty()) return Profile{};
  return parse_profile(loaded.profile(), fmt::format("host '{}'", name_));
}

void Host::beat(const std::shared_ptr<Channel>& channel) {
  {
    const std::lock_guard lock(mutex_);
    control_ = channel;
  }
  const std::chrono::nanoseconds period = beat_period(silence_);
  bool leaving = false;
  for (uint64_t number = 1;; ++number) {
    const Time sent = monotonic_now();
    channel->expect_by(sent + silence_);
    Message beat;
    beat.mutable_beat()->set_number(number);
    int64_t theirs = 0;
    absl::Status failed = channel->send(beat);
    if (failed.ok()) {
      const absl::StatusOr<Frame> echo = channel->receive(kGreetingLimits);
      failed = echo.status();
      if (echo.ok()) theirs = echo->message.echo().clock_nanos();
      if (echo.ok() && echo->message.echo().number() != number) failed = invalid("a wrong echo");
      if (failed.ok() && echo->message.echo().leaving()) {
        if (!std::exchange(leaving, true)) spdlog::info("host '{}' leaves", name_);
        for (const auto& slot : slots_)
          slot->leave();  // again, since one may have joined meanwhile
      }
    }
    if (!failed.ok()) {
      if (!channel->late() && !leaving) return lost(message(failed));
      return end(channel->late() ? "silent" : "left", message(failed));
    }
    const Time now = monotonic_now();
    channel->expect_by(Time::infinite());
    if (!is_whole() && now - began_ > kAttaching) return end("died", "it is not whole");
    if (leaving && idle()) return end("left", "it ended what it ran");
    std::unique_lock lock(mutex_);
    heard_ = now;
    reached_ = sent;
    clock_.observe(sent, Time::from_nanos(theirs), now);
    if (joined_) link_.echo(now - sent, now);  // what it loads before slows its answers
    changed_.wait_for(lock, period, [this] { return asked_ || !cause_.empty(); });
    if (!cause_.empty()) return;
    asked_ = false;
  }
}

Time Host::ask() {
  const std::lock_guard lock(mutex_);
  asked_ = true;
  changed_.notify_all();
  return heard_;
}

bool Host::is_whole() const {
  const std::lock_guard lock(mutex_);
  return attached_ == slots_.size() + 1;
}

bool Host::idle() const {
  return absl::c_all_of(slots_, [](const auto& slot) { return slot->idle(); });
}

void Host::end(std::string_view cause, std::string_view why) {
  std::vector<std::shared_ptr<Channel>> channels;
  {
    const std::lock_guard lock(mutex_);
    if (!cause_.empty()) return;
    cause_ = cause;
    channels = channels_;
    channels.push_back(loads_);
    channels.push_back(control_);
  }
  changed_.notify_all();
  for (const auto& slot : slots_) slot->detach(*this);
  for (const auto& channel : channels) {
    if (channel != nullptr) channel->cut();
  }
  if (cause == "left" || cause == "stopped") {
    spdlog::info("host '{}' has left: {}", name_, why);
  } else {
    spdlog::error("host '{}' is gone ({}): {}", name_, cause, why);
  }
}

void Host::lost(std::string_view why) {
  Duration unheard;
  {
    const std::lock_guard lock(mutex_);
    unheard = monotonic_now() - reached_;
  }
  const Duration may_leave = silence_ - silence_ / kClocksDiffer;
  end(unheard < may_leave ? "died" : "silent", why);
}

std::string Host::cause() const {
  const std::lock_guard lock(mutex_);
  return cause_;
}

void Host::crossed(Duration took, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  link_.batch(took, bytes, monotonic_now());
}

engine::LinkBound Host::bound() const {
  const std::lock_guard lock(mutex_);
  return link_.bound();
}

engine::HostStatistics Host::statistics() const {
  const std::lock_guard lock(mutex_);
  const engine::LinkBound bound = link_.bound();
  engine::HostStatistics own{
      .name = name_,
      .type = slots_.front()->type(),
      .address = address_,
      .workers = joined_ && cause_.empty() ? static_cast<uint32_t>(slots_.size()) : 0,
      .joined = joined_ ? uint64_t{1} : 0,
      .control_delay = bound.control,
      .nanos_per_byte = bound.nanos_per_byte,
      .batches = batches_,
      .lost = lost_};
  if (!cause_.empty()) own.ends_by[cause_] = 1;
  if (const auto clock = clock_.bound(monotonic_now())) own.clock_error = clock->error;
  std::vector<std::shared_ptr<Channel>> all = channels_;
  all.push_back(loads_);
  all.push_back(control_);
  for (const auto& channel : all) {
    if (channel == nullptr) continue;
    own.sent += channel->sent();
    own.received += channel->received();
    own.tensors += channel->tensors();
  }
  return own;
}

}  // namespace fermata::cluster
