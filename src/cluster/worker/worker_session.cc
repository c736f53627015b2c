#include "cluster/worker/worker_session.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "cluster/wire/messages.h"
#include "engine/composite/base_answers.h"
#include "engine/execute/absence.h"

namespace fermata::cluster {
namespace {

constexpr std::chrono::seconds kProcessStarts{1};  // again, of a model whose process died

// Whether a model's process was not there: it has not run.
bool is_away(const engine::BatchResult& result) {
  return absl::c_any_of(result.parts, [](const auto& part) {
    return engine::absence_of(part.status()) == engine::Absence::kAway;
  });
}

// What an ensemble cannot use is a failure of its base model.
absl::Status check_numbers(const std::vector<Tensor>& outputs, uint32_t numbers) {
  if (numbers == 0) return absl::OkStatus();
  if (outputs.size() != 1) return internal("its answer has {} outputs, expected 1", outputs.size());
  return engine::numbers_of(outputs.front(), numbers).status();
}

void await(engine::Executor& executor, VariantId variant) {
  const auto there = std::make_shared<std::promise<void>>();
  executor.when_back(variant, [there] { there->set_value(); });
  (void)there->get_future().wait_for(kProcessStarts);
}

}  // namespace

WorkerSession::~WorkerSession() {
  for (const auto& channel : channels_) channel->cut();
  for (const auto& holders : holders_) holders->end();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerSession::serve(std::shared_ptr<Channel> channel, std::optional<uint32_t> slot) {
  channels_.push_back(channel);
  threads_.emplace_back([this, channel = std::move(channel), slot] {
    const absl::Status ended = slot ? serve_slot(*channel, *slot) : serve_loads(*channel);
    if (!absl::IsUnavailable(ended)) spdlog::error("the scheduler said: {}", message(ended));
    channel->cut();
  });
}

absl::Status WorkerSession::beat(Channel& control, Duration silence,
                                 const std::atomic<bool>& leaving) {
  while (true) {
    control.expect_by(monotonic_now() + silence);
    ASSIGN_OR_RETURN(const Frame frame, control.receive(kGreetingLimits));
    if (!frame.message.has_beat()) return invalid("a message that is no beat");
    Message answer;
    answer.mutable_echo()->set_number(frame.message.beat().number());
    answer.mutable_echo()->set_leaving(leaving);
    answer.mutable_echo()->set_clock_nanos(monotonic_now().nanos());
    RETURN_IF_ERROR(control.send(answer));
    keeper_.forget(monotonic_now());
  }
}

absl::Status WorkerSession::serve_slot(Channel& channel, uint32_t slot) {
  while (true) {
    ASSIGN_OR_RETURN(const Frame frame, channel.receive());
    if (frame.message.has_unload()) {
      slots_.unload(slot, frame.message.unload().variant());
      Message answer;
      answer.mutable_loaded();
      RETURN_IF_ERROR(channel.send(answer));
    } else {
      RETURN_IF_ERROR(run(channel, slot, frame));
    }
  }
}

// Again, once, where a model's process was not there and is soon; that wait is none of the way
// here.
engine::BatchResult WorkerSession::execute(uint32_t slot, VariantId variant,
                                           const engine::BatchRun& run) {
  engine::Executor& executor = slots_.executor(slot);
  const auto once = [&] {
    return executor.run_here(
        {.variant = variant, .parts = run.parts, .limit = run.limit, .to_the_end = run.to_the_end});
  };
  engine::BatchResult result = once();
  if (!is_away(result)) return result;
  const Time began = monotonic_now();
  await(executor, variant);
  const Duration waited = monotonic_now() - began;
  result = once();
  result.input += waited;
  return result;
}

absl::Status WorkerSession::run(Channel& channel, uint32_t slot, const Frame& frame) {
  const Time came = monotonic_now();
  const Batch& asked = frame.message.batch();
  const auto variant = slots_.find(slot, asked.variant());
  if (!frame.message.has_batch() || variant == nullptr) {
    return invalid("a batch of a model that is not loaded");
  }
  slots_.settle(slot);
  if (asked.holders_size() > 0) return run_elsewhere(channel, slot, asked, *variant);
  absl::StatusOr<ReceivedBatch> received = read_batch(frame, variant->signature, came);
  if (!received.ok()) return refuse(channel, asked, received.status());
  const engine::BatchResult result = execute(slot, variant->id, received->run);
  const Outgoing out = write_ended(received->number, result.started - came, result);
  if (const absl::Status fits = out.check(); !fits.ok()) return refuse(channel, asked, fits);
  return channel.send(out.message, out.payload);
}

// Its inputs are with frontends, and its outputs go there.
absl::Status WorkerSession::run_elsewhere(Channel& channel, uint32_t slot, const Batch& asked,
                                          const engine::Variant& variant) {
  const Time came = monotonic_now();
  absl::StatusOr<Holders::Fetched> fetched = holders_[slot]->fetch(asked, variant, came);
  if (!fetched.ok()) return refuse(channel, asked, fetched.status());
  engine::BatchResult ran{.started = monotonic_now()};
  if (!fetched->batch.run.parts.empty()) ran = execute(slot, variant.id, fetched->batch.run);
  engine::BatchResult result = ran;
  result.parts.clear();
  auto next = ran.parts.begin();
  for (const Holders::Fetched::Part& from : fetched->parts) {
    if (!from.status.ok()) {
      result.parts.emplace_back(from.status);
      continue;
    }
    auto& part = result.parts.emplace_back(std::move(*next++));
    const absl::Status fine = part.ok() ? check_numbers(*part, from.numbers) : absl::OkStatus();
    if (!fine.ok()) part = fine;
  }
  result.moved = fetched->bytes + holders_[slot]->bring(asked, variant, *fetched, result);
  return channel.send(write_ended(asked.number(), result.started - came, result).message);
}

// Which fails what is asked for, and not this host.
absl::Status WorkerSession::refuse(Channel& channel, const Batch& batch, const absl::Status& why) {
  engine::BatchResult result;
  result.parts.assign(static_cast<size_t>(batch.parts_size()), why);
  return channel.send(write_ended(batch.number(), Duration(), result).message);
}

absl::Status WorkerSession::serve_loads(Channel& channel) {
  while (true) {
    ASSIGN_OR_RETURN(const Frame frame, channel.receive(kLoadLimits));
    if (!frame.message.has_load()) return invalid("a message that is no load");
    Message answer;
    Loaded& loaded = *answer.mutable_loaded();
    if (const absl::Status failed = load(frame.message.load(), loaded); !failed.ok()) {
      spdlog::error("model '{}' cannot be loaded for the scheduler: {}",
                    frame.message.load().model(), message(failed));
      loaded.set_code(static_cast<uint32_t>(failed.code()));
      loaded.set_why(std::string(message(failed)));
    }
    RETURN_IF_ERROR(channel.send(answer));
  }
}

absl::Status WorkerSession::load(const Load& load, Loaded& answer) {
  if (load.slot() >= holders_.size()) return invalid("slot {}", load.slot());
  ASSIGN_OR_RETURN(const auto variant, open_(load));
  RETURN_IF_ERROR(slots_.load(load.slot(), load.variant(), variant));
  if (variant->profile.measured()) answer.set_profile(to_json(variant->profile));
  return absl::OkStatus();
}

}  // namespace fermata::cluster
