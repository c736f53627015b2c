#include "cluster/worker/keeper.h"

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/wire/announced.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/random_number.h"

namespace fermata::cluster {
namespace {

constexpr Duration kReaderTakes = Duration::seconds(5);

}  // namespace

// Keys of an earlier process are nobody's.
Keeper::Keeper(TlsFiles tls, uint64_t most)
    : most_(most), next_(random_number() >> 2), listener_(std::move(tls)) {}

absl::Status Keeper::listen(const std::string& host, uint16_t port) {
  RETURN_IF_ERROR(listener_.listen(
      host, port, [this](const Attach&, Channel& channel) { return serve(channel); }));
  address_ = announced(host, listener_.port());
  return absl::OkStatus();
}

absl::Status Keeper::serve(Channel& channel) {
  while (true) {
    ASSIGN_OR_RETURN(const Frame frame, channel.receive());
    if (!frame.message.has_fetch()) return invalid("a message that no other worker sends");
    Outgoing out;
    Inputs& inputs = *out.message.mutable_inputs();
    for (const Kept& what : frame.message.fetch().kept()) {
      Given& given = *inputs.add_given();
      absl::StatusOr<Payload> bytes = give(what);
      if (bytes.ok()) {
        out.add({.data = *std::move(bytes)}, *given.add_tensors());
      } else {
        given.set_code(static_cast<uint32_t>(bytes.status().code()));
        given.set_why(std::string(message(bytes.status())));
      }
    }
    RETURN_IF_ERROR(out.check());
    channel.expect_by(monotonic_now() + kReaderTakes);
    RETURN_IF_ERROR(channel.send(out.message, out.payload));
    channel.expect_by(Time::infinite());
  }
}

std::optional<uint64_t> Keeper::keep(absl::Span<const std::byte> bytes, uint32_t readers,
                                     Time until) {
  if (address_.empty() || readers == 0 || bytes.empty()) return {};
  {
    const std::lock_guard lock(mutex_);
    drop_late(monotonic_now());
    if (bytes.size() > most_ - held_ || all_.size() >= kMostTensors) return {};
    held_ += bytes.size();
  }
  auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  const std::lock_guard lock(mutex_);
  const uint64_t key = ++next_;
  all_[key] = {std::move(copy), readers * bytes.size(), monotonic_now(), until};
  by_end_.emplace(until, key);
  return key;
}

void Keeper::forget(Time now) {
  const std::lock_guard lock(mutex_);
  drop_late(now);
}

void Keeper::drop_late(Time now) {
  while (!by_end_.empty() && by_end_.begin()->first <= now) drop(by_end_.begin()->second);
  while (held_ > most_ / kLittle && !all_.empty() && now - all_.begin()->second.since >= kLongest) {
    drop(all_.begin()->first);  // the oldest
  }
}

void Keeper::drop(uint64_t key) {
  const auto it = all_.find(key);
  held_ -= it->second.bytes->size();
  by_end_.erase({it->second.until, key});
  all_.erase(it);
}

absl::StatusOr<Payload> Keeper::give(const Kept& what) {
  const std::lock_guard lock(mutex_);
  drop_late(monotonic_now());
  const auto it = all_.find(what.key());
  if (it == all_.end()) return not_found("it is kept no more");
  const auto bytes = it->second.bytes;
  if (what.first() > bytes->size() || what.bytes() > bytes->size() - what.first()) {
    return invalid("{} bytes from {} on, of {}", what.bytes(), what.first(), bytes->size());
  }
  uint64_t& to_give = it->second.to_give;
  to_give -= std::min(to_give, what.bytes());
  if (to_give == 0) drop(what.key());
  return Payload{absl::MakeConstSpan(*bytes).subspan(what.first(), what.bytes()), bytes};
}

uint64_t Keeper::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

}  // namespace fermata::cluster
