#include "engine/schedule/entry.h"

#include <utility>

#include "base/status.h"

namespace fermata::engine {
namespace {

// What is smaller costs more to count than to keep.
constexpr size_t kCountedFrom = 4096;

absl::Status queue_is_full(const Gate& gate, Gate::Entry entry, const std::string& service) {
  if (entry == Gate::Entry::kFull) {
    return error(absl::StatusCode::kResourceExhausted,
                 "the queue of '{}' is full: {} requests wait (queue_limit)", service,
                 gate.limit.load());
  }
  return error(absl::StatusCode::kResourceExhausted,
               "this connection holds half of what others leave free of the queue of '{}', which "
               "takes {} requests (queue_limit)",
               service, gate.limit.load());
}

}  // namespace

void reject(const InferRequest& request, Reply& reply, absl::Status why, Outcome outcome) {
  reply({.status = std::move(why),
         .model = request.service,
         .version = request.version,
         .id = request.id,
         .why = {.outcome = outcome}});
}

uint64_t bytes_of(const std::vector<Tensor>& inputs) {
  uint64_t sum = 0;
  for (const Tensor& input : inputs) {
    sum += input.data.bytes.size();
    if (input.datatype != DataType::kBytes) continue;
    sum += input.data.bytes.size() + element_count(input.shape) * sizeof(std::string);
  }
  return sum;
}

void count_until_read(std::vector<Tensor>& outputs, const std::shared_ptr<ByteBudget>& budget) {
  for (Tensor& output : outputs) {
    const size_t bytes = output.data.bytes.size();
    if (bytes < kCountedFrom) continue;
    budget->take_anyway(bytes);
    output.data.owner = std::make_shared<std::pair<HeldBytes, std::shared_ptr<const void>>>(
        HeldBytes(budget, bytes), std::move(output.data.owner));
  }
}

absl::Status no_room_for(uint64_t bytes, const std::string& service, const ByteBudget& budget) {
  if (bytes > budget.most()) {
    return error(absl::StatusCode::kOutOfRange,
                 "the inputs take {} bytes while they run, but requests for '{}' may hold {} "
                 "(limits.held_mb): send less in one request",
                 bytes, service, budget.most());
  }
  return error(
      absl::StatusCode::kResourceExhausted,
      "memory limit reached (limits.held_mb): requests in flight and unread replies of '{}' "
      "hold {} bytes, no room for {} more; retry later",
      service, budget.used(), bytes);
}

std::shared_ptr<Job> let_in(JobId id, InferRequest&& request, Reply reply,
                            std::shared_ptr<Route> route, Place place) {
  absl::StatusOr<Admitted> admitted =
      admit(request, route->variant->signature, {route->part_items, route->most_parts});
  Gate& gate = *route->gate;
  const bool has_a_place = place == Place::kHad;
  if (route->pipeline != nullptr && !has_a_place)
    gate.asked.fetch_add(1, std::memory_order_relaxed);
  const bool good = admitted.ok();
  const uint64_t connection = request.connection;
  const auto entry =
      good && !has_a_place ? gate.enter(connection, place == Place::kTaken) : Gate::Entry::kTaken;
  auto job = std::make_shared<Job>(id, std::move(request), std::move(reply), std::move(route),
                                   good ? *std::move(admitted) : Admitted());
  if (!has_a_place) job->observe_coming();  // else it did when it came first
  if (!good) {
    if (has_a_place) gate.leave(connection);
    job->end(Outcome::kInvalid, admitted.status(), {});
    return nullptr;
  }
  if (entry != Gate::Entry::kTaken) {
    job->end(Outcome::kRejectedQueue, queue_is_full(gate, entry, job->route().service), {});
    return nullptr;
  }
  const uint64_t bytes = bytes_of(job->request().inputs);
  if (!gate.bytes->take(bytes)) {
    gate.leave(connection);
    const absl::Status full = no_room_for(bytes, job->route().service, *gate.bytes);
    job->end(absl::IsOutOfRange(full) ? Outcome::kInvalid : Outcome::kRejectedQueue, full, {});
    return nullptr;
  }
  job->hold(HeldBytes(gate.bytes, bytes));
  return job;
}

}  // namespace fermata::engine
