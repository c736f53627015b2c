#include "cluster/wire/worker_listener.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "base/status.h"

namespace fermata::cluster {

WorkerListener::~WorkerListener() {
  listener_.close();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    for (const auto& each : channels_) {
      if (const auto channel = each.lock()) channel->cut();
    }
  }
  listener_.wait();
}

absl::Status WorkerListener::listen(const std::string& host, uint16_t port, Serve serve) {
  const auto first = [this, serve = std::move(serve)](const Frame& frame, const auto& channel) {
    if (!frame.message.has_attach()) {
      return listener_.refuse(*channel, "greeting", "a message that no worker begins with");
    }
    channel->expect_by(Time::infinite());
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(channels_, [](const auto& each) { return each.expired(); });
      if (over_) return channel->cut();
      channels_.push_back(channel);
    }
    const absl::Status over = serve(frame.message.attach(), *channel);
    if (!absl::IsUnavailable(over)) spdlog::error("a worker said: {}", message(over));
    channel->cut();
  };
  return listener_.listen(host, port, first);
}

}  // namespace fermata::cluster
