#include "cluster/wire/replies.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "cluster/wire/nanos.h"
#include "engine/composite/base_answers.h"

namespace fermata::cluster {
namespace {

void write_explanation(const engine::Explanation& why, Explanation& to) {
  to.set_outcome(static_cast<uint32_t>(why.outcome));
  to.set_variant(why.variant);
  to.set_version(why.version);
  to.set_worker(why.worker);
  to.set_batch_items(why.batch_items);
  to.set_budget_nanos(why.budget.nanos());
  to.set_queueing_nanos(why.queueing.nanos());
  to.set_run_nanos(why.run.nanos());
  to.set_remaining_nanos(why.remaining.nanos());
  to.set_reason(why.reason);
  to.set_alternatives(why.alternatives);
  to.set_posterior(why.posterior);
  to.set_expected_accuracy(why.expected_accuracy);
}

// Of one thing that is said over a connection, far below what may be in a frame.
constexpr size_t kMostWhy = 64 << 10;
constexpr size_t kMostCounts = 4 << 20;  // of evidence, of five bytes at most

}  // namespace

void write_submit(uint64_t key, const engine::InferRequest& request,
                  const engine::Admitted& admitted, Submit& to) {
  to.set_key(key);
  to.set_service(request.service);
  to.set_version(request.version);
  to.set_id(request.id);
  for (const std::string& output : request.outputs) to.add_outputs(output);
  to.set_items(admitted.items);
  for (const int64_t size : admitted.shape) to.add_shape(size);
  to.set_connection(request.connection);
  to.set_arrival_nanos(request.arrival.nanos());
  if (request.timeout) to.set_timeout_nanos(positive(*request.timeout));
  to.set_cutoff_nanos(request.cutoff.nanos());
  to.set_network_nanos(positive(request.network_time));
  to.set_begun(request.begun);
  if (!request.start_from.is_infinite()) to.set_start_nanos(request.start_from.nanos());
}

bool can_be_told(const std::vector<policy::Estimate>& by_item) {
  size_t counts = by_item.size();
  for (const policy::Estimate& estimate : by_item) {
    const auto* evidence = std::get_if<policy::Evidence>(&estimate);
    if (evidence != nullptr) counts += evidence->size();
  }
  return counts <= kMostCounts;
}

void write_learned(uint64_t key, const std::vector<policy::Estimate>& by_item, Learned& to) {
  to.set_key(key);
  for (const policy::Estimate& estimate : by_item) {
    Counts& counts = *to.add_items();
    const auto* evidence = std::get_if<policy::Evidence>(&estimate);
    if (evidence == nullptr) continue;
    for (const uint32_t count : *evidence) counts.add_of_class(count);
  }
}

std::vector<policy::Estimate> read_learned(const Learned& from) {
  std::vector<policy::Estimate> by_item;
  for (const Counts& counts : from.items()) {
    by_item.emplace_back(policy::Evidence(counts.of_class().begin(), counts.of_class().end()));
  }
  return by_item;
}

void write_reply(uint64_t key, const engine::ReplyPart& reply, Reply& to) {
  to.set_key(key);
  to.set_code(static_cast<uint32_t>(reply.status.code()));
  if (!reply.status.ok()) to.set_why(std::string(message(reply.status).substr(0, kMostWhy)));
  to.set_version(reply.version);
  write_explanation(reply.why, *to.mutable_explanation());
  for (const plan::Subset item : engine::answered_by(reply.outputs)) to.add_answered_by(item);
}

absl::StatusOr<engine::ReplyPart> read_reply(const Reply& from) {
  const Explanation& why = from.explanation();
  if (from.code() > 16 || why.outcome() >= engine::kOutcomes) {
    return invalid("a reply of code {} and outcome {}", from.code(), why.outcome());
  }
  engine::ReplyPart reply;
  if (from.code() != 0) {
    reply.status = absl::Status(static_cast<absl::StatusCode>(from.code()), from.why());
  }
  reply.version = from.version();
  reply.why.outcome = static_cast<engine::Outcome>(why.outcome());
  reply.why.variant = why.variant();
  reply.why.version = why.version();
  reply.why.worker = why.worker();
  reply.why.batch_items = why.batch_items();
  reply.why.budget = bounded(why.budget_nanos());
  reply.why.queueing = bounded(why.queueing_nanos());
  reply.why.run = bounded(why.run_nanos());
  reply.why.remaining = bounded(why.remaining_nanos());
  reply.why.reason = why.reason();
  reply.why.alternatives = why.alternatives();
  reply.why.posterior = why.posterior();
  reply.why.expected_accuracy = why.expected_accuracy();
  return reply;
}

}  // namespace fermata::cluster
