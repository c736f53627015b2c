#include "cluster/scheduler/frontend_peer.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>
#include <utility>

#include "base/status.h"
#include "cluster/wire/announced.h"
#include "cluster/wire/beats.h"
#include "cluster/wire/nanos.h"
#include "cluster/wire/offered.h"
#include "cluster/wire/replies.h"
#include "cluster/wire/stream_messages.h"

namespace fermata::cluster {
namespace {

constexpr Duration kWholeWithin = Duration::seconds(10);  // with all its connections
// Of what is asked at a time; no tensor is in it.
constexpr FrameLimits kAskedLimits{64u << 20, 0};

Time on_our_clock(int64_t theirs, const ClockOffset::Bound& clock) {
  return Time::from_nanos(std::clamp(theirs, -kMostNanos, kMostNanos)) - clock.offset;
}

}  // namespace

FrontendPeer::FrontendPeer(engine::Engine& engine, const FrontendHello& hello,
                           const Channel& channel, uint64_t session)
    : engine_(engine),
      asked_of_(dynamic_cast<engine::ForFrontends&>(engine)),
      name_(hello.name()),
      address_(std::make_shared<const std::string>(found_at(hello.address(), channel))),
      session_(session) {}

absl::Status FrontendPeer::beat(const std::shared_ptr<Channel>& channel, Duration silence) {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return error(absl::StatusCode::kUnavailable, "the scheduler stops");
    channels_.push_back(channel);
  }
  spdlog::info("frontend '{}' at {} has come", name_, address());
  const Time began = monotonic_now();
  for (uint64_t number = 1;; ++number) {
    const Time sent = monotonic_now();
    channel->expect_by(sent + silence);
    Message beat;
    beat.mutable_beat()->set_number(number);
    RETURN_IF_ERROR(channel->send(beat));
    ASSIGN_OR_RETURN(const Frame echo, channel->receive(kGreetingLimits));
    if (echo.message.echo().number() != number) return invalid("a wrong echo");
    const Time now = monotonic_now();
    channel->expect_by(Time::infinite());
    {
      const std::lock_guard lock(mutex_);
      clock_.observe(sent, Time::from_nanos(echo.message.echo().clock_nanos()), now);
      if (const auto bound = clock_.bound(now)) known_ = bound;
      const bool whole = asks_ && is_told_;
      if (!whole && now - began > kWholeWithin) return invalid("it is not whole");
    }
    changed_.notify_all();
    if (now - offered_at_ >= Duration::nanos(beat_period(silence).count())) offer(now);
    std::this_thread::sleep_for(frontend_beat_period(silence));
  }
}

// What has changed since the last time.
void FrontendPeer::offer(Time now) {
  offered_at_ = now;
  const auto catalog = engine_.catalog();
  Offered rows;
  write_rows(engine_, rows);
  std::string text = rows.SerializeAsString();
  if (catalog == offered_ && text == offered_rows_) return;
  offered_ = catalog;
  offered_rows_ = std::move(text);
  write_models(asked_of_.models(), rows);
  outbox_->say([&rows](Message& message) {
    Offered& offered = *message.mutable_told()->mutable_offered();
    offered = std::move(rows);
    return offered.ByteSizeLong();
  });
}

absl::Status FrontendPeer::attach(uint32_t slot, const std::shared_ptr<Channel>& channel) {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return error(absl::StatusCode::kUnavailable, "its session is over");
    bool& there = slot == 0 ? asks_ : is_told_;
    if (slot > 1 || std::exchange(there, true))
      return invalid("connection {} is one too many", slot);
    channels_.push_back(channel);
    channel->expect_by(Time::infinite());
  }
  if (slot == 0) return serve_asked(*channel);
  outbox_->open(channel);
  return absl::OkStatus();
}

absl::Status FrontendPeer::serve_asked(Channel& channel) {
  while (true) {
    absl::StatusOr<Frame> frame = channel.receive(kAskedLimits);
    if (!frame.ok()) {
      cut();
      return frame.status();
    }
    if (!frame->message.has_asked()) {
      cut();
      return invalid("a message that asks for nothing");
    }
    const Asked& asked = frame->message.asked();
    const Time now = monotonic_now();
    std::optional<ClockOffset::Bound> clock;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || known_.has_value(); });
      if (over_) return absl::OkStatus();
      clock = known_;
    }
    for (const Submit& each : asked.submits()) submit(each, *clock, now);
    for (const ClientFrame& each : asked.frames()) direct(each, *clock, now);
    for (const uint64_t key : asked.cancels()) cancel(key);
    for (const Learned& each : asked.learned()) {
      const JobId job = job_of(each.key());
      if (!job.is_none()) asked_of_.learned(job, read_learned(each));
    }
    for (const uint64_t owner : asked.closed()) close(owner);
    for (const OperatorTimes& each : asked.operators()) {
      asked_of_.operators_take(session_, each.stream(), read_operators(each));
    }
  }
}

void FrontendPeer::submit(const Submit& asked, const ClockOffset::Bound& clock, Time now) {
  ++requests_;
  {
    const std::lock_guard lock(mutex_);
    if (over_ || !asked_.try_emplace(asked.key(), JobId::none()).second) return;
  }
  engine::InferRequest request;
  request.service = asked.service();
  request.version = asked.version();
  request.id = asked.id();
  request.outputs.assign(asked.outputs().begin(), asked.outputs().end());
  request.elsewhere = std::make_shared<const engine::InputsElsewhere>(engine::InputsElsewhere{
      address_, asked.key(), asked.items(), Shape(asked.shape().begin(), asked.shape().end())});
  request.begun = asked.begun();
  request.connection = asked.connection() == 0 ? 0 : asked.connection() ^ session_;
  request.arrival = std::min(on_our_clock(asked.arrival_nanos(), clock), now);
  if (asked.has_timeout_nanos()) request.timeout = believed(asked.timeout_nanos());
  if (asked.cutoff_nanos() < kMostNanos) {
    request.cutoff = on_our_clock(asked.cutoff_nanos(), clock) - clock.error;
  }
  if (asked.has_start_nanos()) request.start_from = on_our_clock(asked.start_nanos(), clock);
  request.network_time = believed(asked.network_nanos()) + clock.error;
  const JobId job = engine_.submit(
      std::move(request), [self = shared_from_this(), key = asked.key()](engine::ReplyPart reply) {
        self->answer(key, reply);
      });
  bool gone = false;
  {
    const std::lock_guard lock(mutex_);
    gone = over_;
    if (const auto it = asked_.find(asked.key()); it != asked_.end()) it->second = job;
  }
  if (gone) engine_.cancel(job);
}

// The possible error of the clock is taken off when the frame is run.
void FrontendPeer::direct(const ClientFrame& asked, const ClockOffset::Bound& clock, Time now) {
  engine::InferRequest request = read_frame(asked);
  const uint64_t owner = request.frame->owner ^= session_;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    owners_.insert(owner);
  }
  request.arrival = std::min(on_our_clock(asked.arrival_nanos(), clock), now);
  const engine::StreamDirection direction = asked_of_.direct(std::move(request));
  bool gone = false;
  {
    const std::lock_guard lock(mutex_);
    gone = over_;
  }
  if (gone) return engine_.close_streams(owner);
  outbox_->say([key = asked.key(), &direction](Message& message) {
    Directed& said = *message.mutable_told()->add_directed();
    write_directed(key, direction, said);
    return said.ByteSizeLong();
  });
}

void FrontendPeer::close(uint64_t connection) {
  const uint64_t owner = connection ^ session_;
  {
    const std::lock_guard lock(mutex_);
    if (owners_.erase(owner) == 0) return;
  }
  engine_.close_streams(owner);
}

JobId FrontendPeer::job_of(uint64_t key) {
  const std::lock_guard lock(mutex_);
  const auto it = asked_.find(key);
  return it == asked_.end() ? JobId::none() : it->second;
}

void FrontendPeer::cancel(uint64_t key) {
  if (const JobId job = job_of(key); !job.is_none()) engine_.cancel(job);
}

void FrontendPeer::answer(uint64_t key, const engine::ReplyPart& reply) {
  {
    const std::lock_guard lock(mutex_);
    asked_.erase(key);
    if (over_) return;
  }
  ++replies_;
  outbox_->say([key, &reply](Message& message) {
    Reply& said = *message.mutable_told()->add_replies();
    write_reply(key, reply, said);
    return said.ByteSizeLong();
  });
}

void FrontendPeer::cut() {
  std::vector<std::shared_ptr<Channel>> channels;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    channels = channels_;
  }
  changed_.notify_all();
  for (const auto& channel : channels) channel->cut();
}

void FrontendPeer::end() {
  cut();
  std::vector<JobId> jobs;
  std::unordered_set<uint64_t> owners;
  {
    const std::lock_guard lock(mutex_);
    owners.swap(owners_);
    for (const auto& [key, job] : asked_) {
      if (!job.is_none()) jobs.push_back(job);
    }
  }
  for (const JobId job : jobs) engine_.cancel(job);
  for (const uint64_t owner : owners) engine_.close_streams(owner);
}

engine::FrontendStatistics FrontendPeer::statistics() const {
  const std::lock_guard lock(mutex_);
  engine::FrontendStatistics own{.name = name_,
                                 .address = address(),
                                 .there = !over_,
                                 .joined = 1,
                                 .requests = requests_,
                                 .replies = replies_};
  for (const auto& channel : channels_) {
    own.sent += channel->sent();
    own.received += channel->received();
    own.tensors += channel->tensors();
  }
  if (known_) own.clock_error = known_->error;
  return own;
}

}  // namespace fermata::cluster
