#include "cluster/frontend/scheduler_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "cluster/wire/tcp_channel.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::milliseconds kFirstLook{10}, kLastLook{200};
constexpr FrameLimits kToldLimits{64u << 20, 0};

// For a scheduler to take the connection and to answer: one that does not is not the one.
Duration patience(Duration silence) { return std::max(silence * 2, Duration::millis(500)); }

}  // namespace

struct SchedulerLink::Session {
  uint64_t number = 0;
  std::string address;
  std::shared_ptr<Channel> asks, tells;
  Outbox outbox;
  bool over = false, joined = false;  // under the link's mutex
};

SchedulerLink::SchedulerLink(Options options, Events events)
    : options_(std::move(options)), events_(std::move(events)), sessions_(options_.first_session) {}

void SchedulerLink::start() {
  thread_ = std::thread([this] { run(); });
}

SchedulerLink::~SchedulerLink() { stop(); }

void SchedulerLink::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (control_ != nullptr) control_->cut();
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

uint64_t SchedulerLink::session() const {
  const std::lock_guard lock(mutex_);
  return session_ == nullptr ? 0 : session_->number;
}

std::string SchedulerLink::why_none() const {
  const std::lock_guard lock(mutex_);
  return why_none_;
}

void SchedulerLink::say(uint64_t session, absl::FunctionRef<size_t(Asked&)> add) {
  std::shared_ptr<Session> to;
  {
    const std::lock_guard lock(mutex_);
    if (session_ == nullptr || session_->number != session) return;
    to = session_;
  }
  to->outbox.say([&add](Message& text) { return add(*text.mutable_asked()); });
}

void SchedulerLink::run() {
  auto pause = kFirstLook;
  while (true) {
    std::string why;
    bool served = false;
    for (const std::string& address : options_.schedulers) {
      const absl::Status ended = serve_once(address);
      served = served || ended.ok();
      if (ended.ok()) break;  // begins again with the first
      why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", address, message(ended));
    }
    std::unique_lock lock(mutex_);
    if (!stopping_ && !served && why != why_none_) {
      why_none_ = why;
      spdlog::warn("no scheduler: {}; it is tried again", why);
    }
    pause = served ? kFirstLook : std::min(2 * pause, kLastLook);
    if (changed_.wait_for(lock, pause, [this] { return stopping_; })) return;
  }
}

absl::StatusOr<std::shared_ptr<Channel>> SchedulerLink::connect(const std::string& address) {
  const Duration limit = patience(options_.silence);
  ASSIGN_OR_RETURN(auto channel, Tcp::connect(address, limit));
  channel->expect_by(monotonic_now() + limit);
  lookout_.over(channel);
  RETURN_IF_ERROR(Tcp::secure(*channel, options_.tls, false));
  return channel;
}

absl::Status SchedulerLink::serve_once(const std::string& address) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Channel> control, connect(address));
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return absl::OkStatus();
    control_ = control;
  }
  Message greeting;
  FrontendHello& hello = *greeting.mutable_frontend();
  hello.set_version(kVersion);
  hello.set_name(options_.name);
  hello.set_address(options_.address);
  hello.set_epoch(epoch_);
  RETURN_IF_ERROR(control->send(greeting));
  ASSIGN_OR_RETURN(const Frame answer, control->receive(kGreetingLimits));
  if (!answer.message.has_welcome()) {
    return error(absl::StatusCode::kUnavailable, "it refuses this frontend: {}",
                 answer.message.refused().why());
  }
  const Welcome& welcome = answer.message.welcome();
  const auto silence = Duration::nanos(static_cast<int64_t>(welcome.silence_nanos()));
  if (silence <= Duration() || silence > Duration::seconds(3600)) {
    return invalid("its welcome makes no sense");
  }
  epoch_ = std::max(epoch_, welcome.epoch());
  auto session = std::make_shared<Session>();
  session->number = ++sessions_;
  session->address = address;
  RETURN_IF_ERROR(attach(*session, welcome.session(), address));
  return serve(session, *control, silence);
}

absl::Status SchedulerLink::attach(Session& session, uint64_t number, const std::string& address) {
  for (uint32_t slot = 0; slot < 2; ++slot) {
    ASSIGN_OR_RETURN(auto channel, connect(address));
    Message text;
    text.mutable_attach()->set_session(number);
    text.mutable_attach()->set_slot(slot);
    RETURN_IF_ERROR(channel->send(text));
    channel->expect_by(Time::infinite());
    (slot == 0 ? session.asks : session.tells) = std::move(channel);
  }
  return absl::OkStatus();
}

absl::Status SchedulerLink::serve(const std::shared_ptr<Session>& session, Channel& control,
                                  Duration silence) {
  std::thread listener([this, session] { listen(session); });
  absl::Status over;
  while (over.ok()) {
    control.expect_by(monotonic_now() + silence);
    const absl::StatusOr<Frame> frame = control.receive(kGreetingLimits);
    over = frame.status();
    if (over.ok() && !frame->message.has_beat()) over = invalid("a message that is no beat");
    if (!over.ok()) break;
    heard_ = monotonic_now().nanos();
    Message answer;
    answer.mutable_echo()->set_number(frame->message.beat().number());
    answer.mutable_echo()->set_clock_nanos(monotonic_now().nanos());
    over = control.send(answer);
  }
  {
    const std::lock_guard lock(mutex_);
    session->over = true;
    session_ = nullptr;
    if (!stopping_)
      spdlog::warn("the scheduler at {} is gone: {}", session->address, message(over));
  }
  for (const auto& channel : {session->asks, session->tells}) channel->cut();
  control.cut();
  listener.join();
  if (!session->joined) return over;
  events_.lost(session->number);
  return absl::OkStatus();
}

// The first that it says is what it serves: from then on it is asked.
void SchedulerLink::listen(const std::shared_ptr<Session>& session) {
  while (true) {
    const absl::StatusOr<Frame> frame = session->tells->receive(kToldLimits);
    if (!frame.ok() || !frame->message.has_told()) {
      if (frame.ok()) spdlog::error("the scheduler says what is no reply");
      const std::lock_guard lock(mutex_);
      return control_->cut();
    }
    events_.told(frame->message.told());
    if (session->joined) continue;
    {
      const std::lock_guard lock(mutex_);
      if (session->over) return;
      session->joined = true;
      session_ = session;
    }
    session->outbox.open(session->asks);
    spdlog::info("the scheduler at {} is there", session->address);
  }
}

}  // namespace fermata::cluster
