#include "cluster/worker/worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/model_bytes.h"
#include "cluster/wire/tcp_channel.h"
#include "cluster/worker/worker_session.h"
#include "engine/apart/apart_executor.h"
#include "engine/catalog.h"

namespace fermata::cluster {
namespace {

constexpr Duration kConnecting = Duration::seconds(5);
constexpr Duration kTrying = Duration::millis(500);  // where there is another to try
// Of several schedulers one that stands by may be active soon.
constexpr std::chrono::milliseconds kFirstPause{20}, kLongestPause{2000}, kLongestOfSeveral{200};
// Who served for less may be refused again for the same.
constexpr Duration kServed = Duration::seconds(2);

// What the scheduler has and this host has not.
std::string why_other(const engine::Variant& variant, const Load& load) {
  if (const uint64_t own = model_bytes(variant.file); own != load.bytes()) {
    return fmt::format("its files have {} bytes, and the scheduler's {}", own, load.bytes());
  }
  const std::string own = signature_text(variant.signature);
  if (own == load.signature()) return {};
  return fmt::format("its inputs and outputs are\n{}and the scheduler's\n{}", own,
                     load.signature());
}

}  // namespace

Worker::Worker(Options options, Joined joined)
    : options_(std::move(options)), joined_(std::move(joined)) {}

absl::StatusOr<std::unique_ptr<Worker>> Worker::make(Options options, Joined joined) {
  RETURN_IF_ERROR(Tcp::check(options.tls));
  auto worker = std::unique_ptr<Worker>(new Worker(std::move(options), std::move(joined)));
  const Options& own = worker->options_;
  if (!own.host.empty()) RETURN_IF_ERROR(worker->keeper_.listen(own.host, own.port));
  ASSIGN_OR_RETURN(worker->executors_.emplace_back(),
                   engine::make_workers(worker->options_.engine.workers));
  worker->loader_ = std::make_unique<engine::Loader>(worker->options_.engine, worker->executors_);
  std::vector<std::shared_ptr<engine::Executor>> slots;
  for (uint32_t i = 0; i < worker->options_.engine.workers.types.front().count; ++i) {
    slots.push_back(worker->executors_.front()->make());
  }
  worker->slots_ = std::make_unique<WorkerSlots>(std::move(slots));
  return worker;
}

void Worker::leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
}

void Worker::run() {
  std::chrono::milliseconds pause = kFirstPause;
  const auto longest = options_.schedulers.size() > 1 ? kLongestOfSeveral : kLongestPause;
  std::string said;
  while (!leaving_) {
    const Time began = monotonic_now();
    keeper_.forget(began);  // without a scheduler, whose beats are heard else
    std::string why;
    bool served = false;
    for (const std::string& scheduler : options_.schedulers) {
      const absl::Status ended = serve_once(scheduler);
      served = ended.ok();
      if (leaving_ || served) break;  // begins again with the first
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", scheduler, message(ended));
    }
    if (leaving_) break;
    if (served) pause = monotonic_now() - began > kServed ? kFirstPause : pause;
    if (!served && why != std::exchange(said, why)) {
      spdlog::warn("no scheduler: {}; it is tried again", why);
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return leaving_.load(); });
    pause = std::min(2 * pause, longest);
  }
  spdlog::info("host '{}' has left", options_.name);
}

absl::StatusOr<std::shared_ptr<Channel>> Worker::connect(const std::string& scheduler) {
  const Duration limit = options_.schedulers.size() > 1 ? kTrying : kConnecting;
  ASSIGN_OR_RETURN(auto channel, Tcp::connect(scheduler, limit));
  channel->expect_by(monotonic_now() + limit);
  lookout_.over(channel);
  RETURN_IF_ERROR(Tcp::secure(*channel, options_.tls, false));
  return channel;
}

// OK once it has been one of the scheduler's hosts.
absl::Status Worker::serve_once(const std::string& scheduler) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Channel> control, connect(scheduler));
  Message greeting;
  Hello& hello = *greeting.mutable_hello();
  const engine::WorkerType& type = options_.engine.workers.types.front();
  hello.set_version(kVersion);
  hello.set_host(options_.name);
  hello.set_type(type.name);
  hello.set_slots(type.count);
  hello.set_epoch(epoch_);
  RETURN_IF_ERROR(control->send(greeting));
  ASSIGN_OR_RETURN(const Frame answer, control->receive(kGreetingLimits));
  if (!answer.message.has_welcome()) {
    return error(absl::StatusCode::kUnavailable, "it refuses this host: {}",
                 answer.message.refused().why());
  }
  const Welcome& welcome = answer.message.welcome();
  if (welcome.slots() < 1 || welcome.slots() > type.count || welcome.silence_nanos() == 0 ||
      welcome.silence_nanos() > static_cast<uint64_t>(Duration::seconds(3600).nanos())) {
    return invalid("its welcome makes no sense");
  }
  WorkerSession session(*slots_, welcome.slots(), ways_, keeper_,
                        [this](const Load& load) { return open(load); });
  for (uint32_t i = 0; i <= welcome.slots(); ++i) {
    const bool loads = i == welcome.slots();
    ASSIGN_OR_RETURN(auto channel, connect(scheduler));
    Message message;
    Attach& attach = *message.mutable_attach();
    attach.set_session(welcome.session());
    attach.set_loads(loads);
    if (!loads) attach.set_slot(i);
    RETURN_IF_ERROR(channel->send(message));
    channel->expect_by(Time::infinite());
    session.serve(std::move(channel), loads ? std::nullopt : std::optional(i));
  }
  spdlog::info("host '{}' brings {} workers of type '{}' to {}", options_.name, welcome.slots(),
               type.name, scheduler);
  epoch_ = std::max(epoch_, welcome.epoch());
  joined_(welcome.slots());
  const absl::Status over = session.beat(
      *control, Duration::nanos(static_cast<int64_t>(welcome.silence_nanos())), leaving_);
  if (!leaving_) spdlog::warn("the scheduler at {} is gone: {}", scheduler, message(over));
  return absl::OkStatus();
}

// Opened once, until its files change.
absl::StatusOr<std::shared_ptr<const engine::Variant>> Worker::open(const Load& load) {
  const auto find = [&]() -> std::shared_ptr<const engine::Variant> {
    for (const auto& variant : opened_[load.model()]) {
      if (variant->version == std::to_string(load.version())) return variant;
    }
    return nullptr;
  };
  std::shared_ptr<const engine::Variant> variant = find();
  if (variant == nullptr || !why_other(*variant, load).empty()) {
    ASSIGN_OR_RETURN(opened_[load.model()], loader_->load(load.model(), std::nullopt));
    variant = find();
  }
  if (variant == nullptr) return not_found("there is no version {}", load.version());
  if (const std::string other = why_other(*variant, load); !other.empty()) {
    return invalid("{}", other);
  }
  return variant;
}

}  // namespace fermata::cluster
