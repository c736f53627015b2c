#include "cluster/scheduler/remote_executor.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/check.h"
#include "base/status.h"
#include "cluster/scheduler/host.h"
#include "cluster/wire/messages.h"
#include "engine/execute/absence.h"
#include "engine/execute/gather.h"

namespace fermata::cluster {
namespace {

using engine::Absence;
using engine::absent;

// The most that whoever brings a batch sends, which may be a scheduler: it fits into the memory
// that the kernel keeps for the connection, so that nobody waits.
constexpr uint64_t kSentAtOnce = 128 << 10;
// Beyond a run's limit, at which its host ends it, until the host is taken for stuck.
constexpr Duration kStuck = Duration::seconds(5);
// Answers in a row that a model's process is not there; an honest host waits before each of them.
constexpr uint32_t kMostAway = 20;
constexpr Duration kUnloadingThere = Duration::seconds(300);

// What waited for something that did not come says nothing of how long the way takes: inputs, or
// the process of a model. Nor does a batch of which nothing was run.
bool shows_the_way(const engine::BatchResult& result) {
  const auto in_vain = [](const auto& part) {
    return absl::IsDataLoss(part.status()) || engine::absence_of(part.status()) != Absence::kNone;
  };
  return absl::c_any_of(result.parts, [](const auto& part) { return part.ok(); }) &&
         absl::c_none_of(result.parts, in_vain);
}

absl::Status too_late() {
  return absent(Absence::kLate, error(absl::StatusCode::kDeadlineExceeded,
                                      "it waited for its worker until its deadline"));
}

}  // namespace

RemoteExecutor::~RemoteExecutor() {
  thread_.reset();
  std::shared_ptr<Host> host;
  {
    const std::lock_guard lock(mutex_);
    host = host_;
  }
  if (host != nullptr) host->end("stopped", "the server stops");
}

bool RemoteExecutor::claim() {
  const std::lock_guard lock(mutex_);
  return !std::exchange(claimed_, true);
}

absl::Status RemoteExecutor::load(std::shared_ptr<const engine::Variant> variant) {
  thread_->wait();  // an earlier unload of it
  std::shared_ptr<Host> host;
  uint32_t slot = 0;
  {
    const std::lock_guard lock(mutex_);
    wanted_[variant->id] = variant;
    if (!there_) return absl::OkStatus();
    host = host_;
    slot = slot_;
  }
  const auto loaded = host->load(*variant, slot);
  if (!loaded.ok()) host->end("refused", message(loaded.status()));
  return absl::OkStatus();
}

// What was sent before ends first, and nothing is sent until it has been answered.
void RemoteExecutor::unload(VariantId id) {
  const std::lock_guard in_order(order_);
  outstanding_.fetch_add(1);
  thread_->post([this, id] {
    send_unload(id);
    outstanding_.fetch_sub(1);
  });
}

void RemoteExecutor::send_unload(VariantId id) {
  std::shared_ptr<Channel> channel;
  Message message;
  {
    const std::lock_guard lock(mutex_);
    wanted_.erase(id);
    if (there_) channel = channel_;
    message.mutable_unload()->set_variant(id.value());
    message.mutable_unload()->set_slot(slot_);
  }
  if (channel == nullptr) return;
  channel->expect_by(monotonic_now() + kUnloadingThere);
  const std::lock_guard one_at_a_time(sending_);
  if (channel->send(message).ok() && channel->receive().ok()) {
    channel->expect_by(Time::infinite());
  }
}

absl::Status RemoteExecutor::join(std::shared_ptr<Host> host, uint32_t slot,
                                  std::shared_ptr<Channel> channel) {
  Presence presence{.there = true};
  std::set<VariantId> loaded;
  while (true) {
    std::shared_ptr<const engine::Variant> missing;
    {
      const std::lock_guard in_order(presence_);
      const std::lock_guard lock(mutex_);
      for (const auto& [id, variant] : wanted_) {
        if (!loaded.contains(id)) missing = variant;
      }
      if (missing == nullptr) {
        if (!host->cause().empty()) return internal("it has gone");
        host_ = std::move(host);
        slot_ = slot;
        channel_ = std::move(channel);
        there_ = true;
        if (told_) told_(std::move(presence));
        return absl::OkStatus();
      }
    }
    ASSIGN_OR_RETURN(Profile profile, host->load(*missing, slot));
    loaded.insert(missing->id);
    if (profile.measured()) presence.profiles.emplace_back(missing->id, std::move(profile));
  }
}

void RemoteExecutor::leave() {
  const std::lock_guard in_order(presence_);
  const std::lock_guard lock(mutex_);
  if (std::exchange(there_, false) && told_) told_({.there = false});
}

void RemoteExecutor::detach(const Host& host) {
  const std::lock_guard in_order(presence_);
  const std::lock_guard lock(mutex_);
  claimed_ = false;
  if (host_.get() != &host) return;
  host_ = nullptr;
  channel_ = nullptr;
  if (std::exchange(there_, false) && told_) told_({.there = false});
}

void RemoteExecutor::tell_presence(Presences told) {
  const std::lock_guard lock(presence_);
  told_ = std::move(told);
}

bool RemoteExecutor::there() const {
  const std::lock_guard lock(mutex_);
  return there_;
}

std::optional<engine::LinkBound> RemoteExecutor::link() const {
  const std::lock_guard lock(mutex_);
  if (!there_) return {};
  return host_->bound();
}

std::string RemoteExecutor::host() const {
  const std::lock_guard lock(mutex_);
  return there_ ? host_->name() : "";
}

Time RemoteExecutor::ask() {
  std::shared_ptr<Host> host;
  {
    const std::lock_guard lock(mutex_);
    host = host_;
  }
  return host == nullptr ? Time() : host->ask();
}

void RemoteExecutor::run(engine::BatchRun batch) {
  const std::lock_guard in_order(order_);
  if (outstanding_.fetch_add(1) == 0 && bytes_of(batch.parts) <= kSentAtOnce) begun_ = begin(batch);
  thread_->run(std::move(batch));
}

absl::StatusOr<RemoteExecutor::Begun> RemoteExecutor::begin(const engine::BatchRun& batch) {
  Begun begun{.number = ++numbers_, .start = monotonic_now()};
  {
    const std::lock_guard lock(mutex_);
    // Its other workers may not have gone yet: what died with it would die with it again.
    if (!there_ || !host_->cause().empty()) {
      return absent(Absence::kCut, error(absl::StatusCode::kUnavailable, "its host has gone"));
    }
    begun.host = host_;
    begun.channel = channel_;
    const auto wanted = wanted_.find(batch.variant);
    FERMATA_CHECK(wanted != wanted_.end());
    begun.variant = wanted->second;
  }
  ASSIGN_OR_RETURN(const Outgoing out,
                   write_batch(begun.number, batch, begun.variant->signature, begun.start));
  RETURN_IF_ERROR(out.check());
  begun.bytes = out.bytes();
  const Time latest = Time::from_nanos(latest_.load());
  begun.channel->expect_by(std::min(begun.start + batch.limit + kStuck, latest));
  const std::lock_guard one_at_a_time(sending_);
  if (absl::Status sent = begun.channel->send(out.message, out.payload); !sent.ok()) {
    return lost(*begun.host, *begun.channel, batch.variant, sent);
  }
  return begun;
}

absl::Status RemoteExecutor::lost(Host& host, const Channel& channel, VariantId variant,
                                  const absl::Status& why) {
  if (channel.late()) host.end("overdue", message(why));
  host.lost(message(why));
  host.lost_batch();
  ++lost_;
  const std::string cause = host.cause();
  if (deaths_) deaths_(variant, monotonic_now(), "host " + cause);
  const Absence how = cause == "died"      ? Absence::kHostLost
                      : cause == "overdue" ? Absence::kLost
                                           : Absence::kCut;
  return absent(how, internal("host '{}' went while it ran this ({})", host.name(), cause));
}

// What waited behind another batch until its deadline leaves the batch: which of its parts.
std::vector<bool> RemoteExecutor::take_late(engine::BatchRun& batch, Time now) {
  std::vector<bool> late;
  for (const engine::BatchPart& part : batch.parts) late.push_back(part.deadline <= now);
  std::erase_if(batch.parts, [now](const auto& part) { return part.deadline <= now; });
  return late;
}

void RemoteExecutor::run_batch(engine::BatchRun& batch) {
  std::optional<absl::StatusOr<Begun>> begun = std::exchange(begun_, std::nullopt);
  std::vector<bool> late(batch.parts.size());
  if (!begun) {
    late = take_late(batch, monotonic_now());
    begun = batch.parts.empty() ? too_late() : begin(batch);
  }
  engine::BatchResult result;
  const absl::Status ended = end(*begun, batch, result);
  if (!ended.ok()) {
    result = {.started = begun->ok() ? (*begun)->start : monotonic_now()};
    result.parts.assign(batch.parts.size(), ended);
  }
  begun.reset();
  for (size_t i = 0; i < late.size(); ++i) {
    if (late[i]) result.parts.insert(result.parts.begin() + static_cast<ptrdiff_t>(i), too_late());
  }
  outstanding_.fetch_sub(1);
  batch.done(std::move(result));
}

absl::Status RemoteExecutor::end(const absl::StatusOr<Begun>& begun, const engine::BatchRun& batch,
                                 engine::BatchResult& result) {
  RETURN_IF_ERROR(begun.status());
  Host& host = *begun->host;
  Channel& channel = *begun->channel;
  const absl::StatusOr<Frame> frame = channel.receive();
  if (!frame.ok()) return lost(host, channel, batch.variant, frame.status());
  const Time now = monotonic_now();
  channel.expect_by(Time::infinite());
  absl::StatusOr<ReceivedEnd> received =
      read_ended(*frame, begun->number, batch.parts, begun->variant->signature);
  if (!received.ok()) {
    host.end("refused", fmt::format("a wrong answer: {}", message(received.status())));
    return internal("host '{}' gave a wrong answer: {}", host.name(), message(received.status()));
  }
  result = std::move(received->result);
  const bool absent_there = absl::c_all_of(result.parts, [](const auto& part) {
    return engine::absence_of(part.status()) == Absence::kAway;
  });
  away_ = absent_there ? away_ + 1 : 0;
  if (away_ >= kMostAway) {
    host.end("refused", "it takes batches of a model whose process is not there");
    away_ = 0;
  }
  result.started = begun->start;
  // Not longer than it was away, whatever its host's clock says.
  const Duration away = now - begun->start;
  result.run = std::min(result.run, away);
  result.input = std::min(result.input, away - result.run);
  result.output = std::min(result.output, away - result.run - result.input);
  result.link = away - result.run - result.input - result.output;
  result.input += result.link;
  result.moved += begun->bytes + frame->bytes;
  host.ended_batch();
  if (shows_the_way(result)) host.crossed(result.link, result.moved);
  return absl::OkStatus();
}

}  // namespace fermata::cluster
