#include "cluster/scheduler/hosts.h"

#include <algorithm>
#include <utility>

#include "base/document.h"
#include "base/status.h"
#include "cluster/scheduler/remote_executor.h"
#include "cluster/wire/random_number.h"

namespace fermata::cluster {
namespace {

constexpr size_t kMostGone = 1024;  // hosts that are remembered
// That is believed: nobody comes so far, and a Lease's transitions have room for it.
constexpr uint64_t kMostEpoch = uint64_t{1} << 30;

void add(engine::HostStatistics& sum, const engine::HostStatistics& one) {
  sum.name = one.name;
  sum.type = one.type;
  sum.address = one.address;
  sum.workers += one.workers;
  sum.joined += one.joined;
  for (const auto& [cause, count] : one.ends_by) sum.ends_by[cause] += count;
  sum.control_delay = one.control_delay;
  sum.nanos_per_byte = one.nanos_per_byte;
  sum.sent += one.sent;
  sum.received += one.received;
  sum.tensors += one.tensors;
  sum.clock_error = one.clock_error;
  sum.batches += one.batches;
  sum.lost += one.lost;
}

}  // namespace

class Hosts::Factory : public engine::ExecutorFactory {
 public:
  Factory(Hosts& hosts, std::string type, std::unique_ptr<engine::ExecutorFactory> here)
      : hosts_(hosts), type_(std::move(type)), here_(std::move(here)) {}
  std::shared_ptr<engine::Executor> make() override {
    auto executor = std::make_shared<RemoteExecutor>(type_);
    const std::lock_guard lock(hosts_.mutex_);
    hosts_.slots_[type_].push_back(executor);
    return executor;
  }
  absl::StatusOr<std::vector<FileSignature>> open(const engine::Variant& variant) override {
    return here_->open(variant);
  }
  absl::StatusOr<inference::ModelConfig> complete(const engine::Variant& variant) override {
    return here_->complete(variant);
  }
  engine::ExecutorFactory& here() override { return *here_; }

 private:
  Hosts& hosts_;
  const std::string type_;
  const std::unique_ptr<engine::ExecutorFactory> here_;
};

std::unique_ptr<engine::ExecutorFactory> Hosts::executors(
    const engine::WorkerType& type, std::unique_ptr<engine::ExecutorFactory> here) {
  return std::make_unique<Factory>(*this, type.name, std::move(here));
}

absl::Status Hosts::listen() {
  return listener_.listen(
      options_.host, options_.port,
      [this](const Frame& first, const auto& channel) { greet(first, channel); });
}

Hosts::~Hosts() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  listener_.close();
  frontends_.end();
  std::vector<std::shared_ptr<Host>> hosts;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [session, host] : sessions_) hosts.push_back(host);
  }
  for (const auto& host : hosts) host->end("stopped", "the server stops");
  listener_.wait();
}

void Hosts::greet(const Frame& first, const std::shared_ptr<Channel>& channel) {
  if (first.message.has_hello()) return welcome(first.message.hello(), channel);
  if (first.message.has_frontend()) return welcome(first.message.frontend(), channel);
  if (first.message.has_attach()) return attach(first.message.attach(), channel);
  listener_.refuse(*channel, "greeting", "a message that nobody begins with");
}

void Hosts::turn_away(Channel& channel, const std::string& cause, const std::string& why) {
  Message answer;
  answer.mutable_refused()->set_why(why);
  (void)channel.send(answer);
  if (cause != "standby") return listener_.refuse(channel, cause, why);
  listener_.count(cause);
  channel.cut();
}

// Of any part; empty: nothing speaks against it.
std::string Hosts::why_not(uint32_t version, const std::string& name, uint64_t epoch,
                           std::string& cause) {
  if (version != kVersion) {
    cause = "version";
    return fmt::format(
        "it speaks version {} of the messages between parts, and this scheduler version {}, "
        "expected "
        "the same release of Fermata everywhere",
        version, kVersion);
  }
  if (!is_name(name) || name.size() > 256) {
    cause = "name";
    return fmt::format("its name, expected {}", kName);
  }
  uint64_t before = heard_;
  while (before < epoch && epoch < kMostEpoch && !heard_.compare_exchange_weak(before, epoch)) {
  }
  cause = "standby";
  if (epoch_ == 0) return "this scheduler stands by; another is active";
  if (epoch_ < epoch)
    return fmt::format("it has had a scheduler of epoch {}, and this is of {}", epoch,
                       epoch_.load());
  return {};
}

std::shared_ptr<Host> Hosts::make_host(const Hello& hello, const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return nullptr;  // who ends all that there are may have done so
  Host::Slots taken;
  for (const Slot& each : slots_[hello.type()]) {
    if (taken.size() >= hello.slots()) break;
    if (auto slot = each.lock(); slot != nullptr && slot->claim()) taken.push_back(std::move(slot));
  }
  if (taken.empty()) return nullptr;
  auto host = std::make_shared<Host>(hello.host(), address, random_number(), options_.silence,
                                     std::move(taken));
  sessions_[host->session()] = host;
  return host;
}

void Hosts::welcome(const Hello& hello, const std::shared_ptr<Channel>& channel) {
  std::string cause;
  std::string why = why_not(hello.version(), hello.host(), hello.epoch(), cause);
  if (!why.empty()) return turn_away(*channel, cause, why);
  bool of_a_type = false;
  {
    const std::lock_guard lock(mutex_);
    of_a_type = slots_.contains(hello.type());
  }
  if (!of_a_type) {
    return turn_away(
        *channel, "type",
        fmt::format("workers.types has no remote type '{}'", hello.type().substr(0, 64)));
  }
  const std::shared_ptr<Host> host = make_host(hello, channel->peer());
  if (host == nullptr) {
    return turn_away(*channel, "full",
                     fmt::format("all workers of type '{}' are there already", hello.type()));
  }
  Message answer;
  Welcome& welcome = *answer.mutable_welcome();
  welcome.set_session(host->session());
  welcome.set_slots(host->slots());
  welcome.set_silence_nanos(static_cast<uint64_t>(options_.silence.nanos()));
  welcome.set_epoch(epoch_);
  if (const absl::Status sent = channel->send(answer); !sent.ok()) host->end("died", message(sent));
  host->beat(channel);
  forget(host);
}

void Hosts::welcome(const FrontendHello& hello, const std::shared_ptr<Channel>& channel) {
  std::string cause;
  std::string why = why_not(hello.version(), hello.name(), hello.epoch(), cause);
  if (why.empty() && !frontends_.serving()) {
    cause = "frontend";
    why = "this is a `fermata serve`, which takes requests itself, expected a `fermata scheduler`";
  }
  if (!why.empty()) return turn_away(*channel, cause, why);
  frontends_.welcome(hello, channel, epoch_);
}

void Hosts::forget(const std::shared_ptr<Host>& host) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(host->session());
  add(ended_[host->name()], host->statistics());
  std::erase(gone_, host->name());
  gone_.push_back(host->name());
  if (gone_.size() <= kMostGone) return;
  ended_.erase(gone_.front());
  gone_.pop_front();
}

void Hosts::attach(const Attach& attach, const std::shared_ptr<Channel>& channel) {
  std::shared_ptr<Host> host;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = sessions_.find(attach.session()); it != sessions_.end()) host = it->second;
  }
  if (host == nullptr) {
    if (frontends_.attach(attach, channel)) return;
    return listener_.refuse(*channel, "session", "a session that there is not");
  }
  const absl::StatusOr<bool> complete = host->attach(attach, channel);
  if (!complete.ok()) return listener_.refuse(*channel, "session", message(complete.status()));
  if (*complete) host->join();
}

engine::ClusterStatistics Hosts::statistics() const {
  engine::ClusterStatistics all;
  const std::lock_guard lock(mutex_);
  std::map<std::string, engine::HostStatistics> sums = ended_;
  for (const auto& [session, host] : sessions_) add(sums[host->name()], host->statistics());
  for (const auto& [name, sum] : sums) all.hosts.push_back(sum);
  all.frontends = frontends_.statistics();
  all.refused = listener_.refused();
  if (frontends_.serving()) all.epoch = epoch_;
  return all;
}

}  // namespace fermata::cluster
