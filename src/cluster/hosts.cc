#include "cluster/hosts.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <random>
#include <utility>

#include "base/document.h"
#include "base/status.h"
#include "cluster/remote_executor.h"
#include "cluster/tcp_channel.h"

namespace fermata::cluster {
namespace {

using boost::asio::ip::tcp;

constexpr Duration kGreeting = Duration::seconds(5);  // who has not said by then who it is, goes
constexpr size_t kMostGreeting = 64;
constexpr size_t kMostGone = 1024;  // hosts that are remembered

uint64_t random_session() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

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
  RETURN_IF_ERROR(Tcp::check(options_.tls));
  boost::system::error_code fault;
  const auto found = tcp::resolver(Tcp::io()).resolve(options_.host, std::to_string(options_.port),
                                                      tcp::resolver::passive, fault);
  const auto tell = [&] {
    return error(absl::StatusCode::kUnavailable, "cannot listen on {}:{}: {}", options_.host,
                 options_.port, fault.message());
  };
  if (fault) return tell();
  const tcp::endpoint where = *found.begin();
  acceptor_.emplace(Tcp::io());
  acceptor_->open(where.protocol(), fault);
  if (!fault) acceptor_->set_option(tcp::acceptor::reuse_address(true), fault);
  if (!fault) acceptor_->bind(where, fault);
  if (!fault) acceptor_->listen(boost::asio::socket_base::max_listen_connections, fault);
  if (fault) return tell();
  port_ = acceptor_->local_endpoint(fault).port();
  thread_ = std::thread([this] { accept(); });
  return absl::OkStatus();
}

Hosts::~Hosts() {
  stopping_ = true;
  if (thread_.joinable()) {
    ::shutdown(acceptor_->native_handle(), SHUT_RDWR);
    thread_.join();
  }
  std::vector<std::shared_ptr<Host>> hosts;
  std::unique_lock lock(mutex_);
  for (const auto& [session, host] : sessions_) hosts.push_back(host);
  for (const auto& greeting : greeting_) {
    if (const auto channel = greeting.lock()) channel->cut();
  }
  lock.unlock();
  for (const auto& host : hosts) host->end("stopped", "the server stops");
  lock.lock();
  changed_.wait(lock, [this] { return connections_ == 0; });
}

void Hosts::accept() {
  while (!stopping_) {
    boost::system::error_code fault;
    tcp::socket socket = acceptor_->accept(fault);
    std::unique_lock lock(mutex_);
    if (stopping_) return;
    if (fault) {  // no descriptor is left, for a moment
      changed_.wait_for(lock, std::chrono::milliseconds(20));
      continue;
    }
    std::erase_if(greeting_, [](const auto& each) { return each.expired(); });
    if (greeting_.size() >= kMostGreeting) {
      ++refused_["crowd"];
      continue;
    }
    std::shared_ptr<Channel> channel = Tcp::accepted(std::move(socket));
    channel->expect_by(monotonic_now() + kGreeting);
    greeting_.push_back(channel);
    ++connections_;
    lock.unlock();
    lookout_.over(channel);
    std::thread([this, channel = std::move(channel)]() mutable {
      greet(channel);
      channel.reset();
      const std::lock_guard ended(mutex_);
      --connections_;
      changed_.notify_all();
    }).detach();
  }
}

void Hosts::greet(const std::shared_ptr<Channel>& channel) {
  if (const absl::Status secure = Tcp::secure(*channel, options_.tls, true); !secure.ok()) {
    return refuse(*channel, "tls", message(secure));
  }
  const absl::StatusOr<Frame> first = channel->receive(kGreetingLimits);
  if (!first.ok()) return refuse(*channel, "greeting", message(first.status()));
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(greeting_, [&](const auto& each) { return each.lock() == channel; });
  }
  if (first->message.has_hello()) return welcome(first->message.hello(), channel);
  if (first->message.has_attach()) return attach(first->message.attach(), channel);
  refuse(*channel, "greeting", "a message that nobody begins with");
}

void Hosts::refuse(Channel& channel, const std::string& cause, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    ++refused_[cause];
  }
  spdlog::warn("a connection from {} is refused ({}): {}", channel.peer(), cause, why);
  channel.cut();
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
  auto host = std::make_shared<Host>(hello.host(), address, random_session(), options_.silence,
                                     std::move(taken));
  sessions_[host->session()] = host;
  return host;
}

void Hosts::welcome(const Hello& hello, const std::shared_ptr<Channel>& channel) {
  Message answer;
  std::string cause = "version";
  std::string& why = *answer.mutable_refused()->mutable_why();
  std::shared_ptr<Host> host;
  bool of_a_type = false;
  {
    const std::lock_guard lock(mutex_);
    of_a_type = slots_.contains(hello.type());
  }
  if (hello.version() != kVersion) {
    why = fmt::format("version {} of the messages, expected {}", hello.version(), kVersion);
  } else if (!is_name(hello.host()) || hello.host().size() > 256) {
    cause = "name";
    why = fmt::format("its name, expected {}", kName);
  } else if (!of_a_type) {
    cause = "type";
    why = fmt::format("workers.types has no remote type '{}'", hello.type().substr(0, 64));
  } else if (host = make_host(hello, channel->peer()); host == nullptr) {
    cause = "full";
    why = fmt::format("all workers of type '{}' are there already", hello.type());
  }
  if (host == nullptr) {
    const std::string told = why;
    (void)channel->send(answer);
    return refuse(*channel, cause, told);
  }
  Welcome& welcome = *answer.mutable_welcome();
  welcome.set_session(host->session());
  welcome.set_slots(host->slots());
  welcome.set_silence_nanos(static_cast<uint64_t>(options_.silence.nanos()));
  if (const absl::Status sent = channel->send(answer); !sent.ok()) host->end("died", message(sent));
  host->beat(channel);
  forget(host);
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
  if (host == nullptr) return refuse(*channel, "session", "a session that there is not");
  const absl::StatusOr<bool> complete = host->attach(attach, channel);
  if (!complete.ok()) return refuse(*channel, "session", message(complete.status()));
  if (*complete) host->join();
}

engine::ClusterStatistics Hosts::statistics() const {
  engine::ClusterStatistics all;
  const std::lock_guard lock(mutex_);
  std::map<std::string, engine::HostStatistics> sums = ended_;
  for (const auto& [session, host] : sessions_) add(sums[host->name()], host->statistics());
  for (const auto& [name, sum] : sums) all.hosts.push_back(sum);
  all.refused = refused_;
  return all;
}

}  // namespace fermata::cluster
