#include "serve/grpc/watch.h"

#include <utility>

#include "base/status.h"
#include "serve/call/status_map.h"

namespace fermata::serve {

Watch* Watch::start(GrpcHouse& house, grpc::CallbackServerContext& context, OpenStreams& watches,
                    absl::Status bad, Message message) {
  const auto watch = std::shared_ptr<Watch>(
      new Watch(house, watches, house.share_of(context)->watches, std::move(message)));
  house.under_way.fetch_add(1);
  watch->self_ = watch;
  if (bad.ok() && !watch->open_.grow_to(GrpcHouse::kStreamHolds)) {
    bad = error(absl::StatusCode::kResourceExhausted,
                "too many watch this server (listen.streams_mb); ask without a stream");
  }
  if (!bad.ok()) {
    const std::scoped_lock lock(watch->mutex_);
    watch->finish(bad);
    return watch.get();
  }
  watch->look();
  watches.add(watch);
  return watch.get();
}

void Watch::look() {
  std::string now = message_();
  const std::scoped_lock lock(mutex_);
  now_ = std::move(now);
  advance();
}

void Watch::drain() {
  look();
  const std::scoped_lock lock(mutex_);
  draining_ = true;
  advance();
}

void Watch::OnWriteDone(bool ok) {
  const std::scoped_lock lock(mutex_);
  writing_ = false;
  if (!ok || cancelled_) return finish(absl::OkStatus());
  advance();
}

void Watch::OnCancel() {
  const std::scoped_lock lock(mutex_);
  cancelled_ = true;
  if (!writing_) finish(absl::OkStatus());  // nobody reads it
}

void Watch::OnDone() {
  watches_.remove(this);
  house_.under_way.fetch_sub(1);
  self_.reset();
}

void Watch::advance() {
  if (writing_ || finished_) return;
  if (told_ == now_) {
    if (draining_) finish(error(absl::StatusCode::kUnavailable, "the server stops"));
    return;
  }
  told_ = now_;
  const grpc::Slice bytes(*now_);
  outgoing_ = grpc::ByteBuffer(&bytes, 1);
  writing_ = true;
  StartWrite(&outgoing_);
}

void Watch::finish(const absl::Status& status) {
  if (std::exchange(finished_, true)) return;
  Finish(grpc_status(status));
}

}  // namespace fermata::serve
