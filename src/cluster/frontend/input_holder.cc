#include "cluster/frontend/input_holder.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "cluster/wire/announced.h"
#include "cluster/wire/messages.h"
#include "cluster/wire/tensor_reader.h"

namespace fermata::cluster {
namespace {

constexpr uint64_t kLongestNanos = uint64_t{1} << 50;  // what is believed of a run
constexpr Duration kTakes = Duration::seconds(5);      // a worker its inputs, or it is gone

HeldRequests::Items items_of(const Piece& piece) {
  return {piece.key(), piece.first(), piece.items(), piece.model()};
}

}  // namespace

absl::Status InputHolder::listen(const std::string& host, uint16_t port) {
  return listener_.listen(host, port, [this](const Attach& first, Channel& channel) {
    return serve(channel, first.keeps().empty() ? "" : found_at(first.keeps(), channel));
  });
}

absl::Status InputHolder::serve(Channel& channel, const std::string& keeper) {
  while (true) {
    ASSIGN_OR_RETURN(const Frame frame, channel.receive());
    if (frame.message.has_fetch()) {
      RETURN_IF_ERROR(send_inputs(channel, frame.message.fetch()));
    } else {
      RETURN_IF_ERROR(take_outputs(frame, keeper));
    }
  }
}

// Of all that was asked for at a time: the batch fails of it, and not the way to this frontend.
static Outgoing too_much(const Fetch& fetch, const absl::Status& why) {
  Outgoing out;
  for (int i = 0; i < fetch.pieces_size(); ++i) {
    Given& given = *out.message.mutable_inputs()->add_given();
    given.set_code(static_cast<uint32_t>(why.code()));
    given.set_why(std::string(message(why)));
  }
  return out;
}

absl::Status InputHolder::send_inputs(Channel& channel, const Fetch& fetch) {
  Outgoing out;
  Inputs& inputs = *out.message.mutable_inputs();
  for (const Piece& piece : fetch.pieces()) {
    Given& given = *inputs.add_given();
    absl::StatusOr<HeldRequests::Wanted> wanted = requests_.fetch(items_of(piece));
    if (!wanted.ok()) {
      given.set_code(static_cast<uint32_t>(wanted.status().code()));
      given.set_why(std::string(message(wanted.status())));
      continue;
    }
    given.set_parameters(wanted->parameters);
    given.set_numbers(wanted->numbers);
    given.set_readers(wanted->readers);
    for (const Tensor& tensor : wanted->inputs) out.add(tensor, *given.add_tensors());
  }
  if (const absl::Status fits = out.check(); !fits.ok()) out = too_much(fetch, fits);
  channel.expect_by(monotonic_now() + kTakes);
  RETURN_IF_ERROR(channel.send(out.message, out.payload));
  channel.expect_by(Time::infinite());
  return absl::OkStatus();
}

absl::Status InputHolder::take_outputs(const Frame& frame, const std::string& keeper) {
  if (!frame.message.has_outputs()) return invalid("a message that is no worker's");
  const Outputs& outputs = frame.message.outputs();
  const HeldRequests::Ran ran{
      outputs.batch_items(),
      Duration::nanos(static_cast<int64_t>(std::min(outputs.run_nanos(), kLongestNanos))),
      monotonic_now()};
  TensorReader tensors(frame, keeper);
  for (const Answered& answered : outputs.answered()) {
    const Piece& piece = answered.piece();
    TensorReader own = tensors;  // the next one's begin behind them, whatever is read of these
    for (const TensorHead& head : answered.tensors()) RETURN_IF_ERROR(tensors.next(head).status());
    const auto read_them = [&](const HeldRequests::Given& by) {
      const engine::BatchPart part{&by.inputs, &by.outputs, piece.first(), piece.items()};
      return read_outputs(answered.tensors(), part, by.signature, own);
    };
    (void)requests_.take(items_of(piece), ran, read_them);
  }
  return tensors.end();
}

}  // namespace fermata::cluster
