#include "cluster/worker/holders.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "cluster/wire/tensor_reader.h"
#include "engine/execute/absence.h"

namespace fermata::cluster {
namespace {

// A frontend from which nothing comes for so long is cut off from this worker: what it holds runs
// elsewhere. All inputs of a batch may take longer.
constexpr Duration kAnswers = Duration::millis(500), kGives = Duration::seconds(4);
constexpr Duration kBrings = Duration::seconds(5);
constexpr Duration kUnused = Duration::seconds(60);  // then a connection goes
constexpr Duration kLeast = Duration::millis(25);    // for whoever has inputs
// What stages gave: those after it have deadlines of their own, of which nothing is known here.
constexpr Duration kKeptLeast = Duration::seconds(5);

absl::Status cut_off(const std::string& address, const absl::Status& why) {
  return engine::absent(engine::Absence::kCut,
                        error(absl::StatusCode::kUnavailable, "no way to the frontend at {}: {}",
                              address, message(why)));
}

void write_piece(const Part& part, const engine::Variant& variant, Piece& to) {
  to.set_key(part.key());
  to.set_first(part.first());
  to.set_items(part.items());
  to.set_model(variant.model);
}

// While it waits for one frontend, the parts that others hold wait too.
Duration patience(const Batch& batch) {
  uint64_t tightest = static_cast<uint64_t>(2 * kAnswers.nanos());
  for (const Part& part : batch.parts()) {
    if (part.left_nanos() > 0) tightest = std::min(tightest, part.left_nanos());
  }
  return std::max(Duration::nanos(static_cast<int64_t>(tightest / 2)), kLeast);
}

}  // namespace

void Holders::end() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  for (const auto& [address, link] : links_) {
    if (fetching_) link.channel->cut();
  }
}

bool Holders::fetching(bool is_so) {
  const std::lock_guard lock(mutex_);
  fetching_ = is_so;
  return !over_;
}

bool Holders::drop(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (const auto it = links_.find(address); it != links_.end()) {
    it->second.channel->cut();
    links_.erase(it);
  }
  return !over_;
}

// Its frontend, or the worker that kept something, may have gone for good.
void Holders::forget_unused(Time now) {
  const std::lock_guard lock(mutex_);
  std::erase_if(links_, [now](const auto& each) { return now - each.second.used > kUnused; });
}

// Unless it is this worker that stops.
void Holders::lost(const std::string& address, const absl::Status& why) {
  if (drop(address)) ways_.lost(address, why);
}

absl::StatusOr<Holders::Link> Holders::link(const std::string& address, Duration patience) {
  RETURN_IF_ERROR(ways_.check(address));
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = links_.find(address); it != links_.end()) {
      it->second.used = monotonic_now();
      return Link{it->second.channel, true};
    }
  }
  ASSIGN_OR_RETURN(auto channel, ways_.connect(address, patience));
  const std::lock_guard lock(mutex_);
  if (over_ && fetching_) return error(absl::StatusCode::kUnavailable, "the worker stops");
  links_[address] = {channel, monotonic_now()};
  return Link{std::move(channel), false};
}

// A connection that was kept may have ended long ago: then by a new one, once.
void Holders::ask(Duration limit, Asked& asked) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Time by = monotonic_now() + limit;
    absl::StatusOr<Link> link = this->link(asked.address, limit);
    asked.failed = link.status();
    asked.late = !link.ok() && monotonic_now() >= by;
    asked.kept = link.ok() && link->kept;
    if (!link.ok()) return;
    asked.channel = std::move(link->channel);
    asked.channel->expect_by(monotonic_now() + limit);
    asked.failed = asked.channel->send(asked.text);
    asked.channel->expect_by(Time::infinite());
    if (asked.failed.ok()) return;
    asked.late = asked.channel->late();
    drop(asked.address);
  }
}

absl::StatusOr<Frame> Holders::answer_once(Asked& asked, Duration limit) {
  RETURN_IF_ERROR(asked.failed);
  asked.channel->expect_pieces(limit, monotonic_now() + kGives);
  absl::StatusOr<Frame> frame = asked.channel->receive();
  asked.channel->expect_pieces(Duration(), Time::infinite());
  asked.late = !frame.ok() && asked.channel->late();
  return frame;
}

// Where none comes, its connection is of no use any more. The kernel may have taken what was asked
// over one that had ended, since the other side was started again.
absl::StatusOr<Frame> Holders::answer(Asked& asked, Duration limit, int given) {
  absl::StatusOr<Frame> frame = answer_once(asked, limit);
  if (!frame.ok() && asked.kept && !asked.late && drop(asked.address)) {
    ask(limit, asked);
    frame = answer_once(asked, limit);
  }
  if (frame.ok() && frame->message.inputs().given_size() != given) {
    frame = invalid("{} inputs, expected {}", frame->message.inputs().given_size(), given);
  }
  return frame;
}

void Holders::receive(const Batch& batch, const Signature& signature, Asked& asked, Fetched& to,
                      std::vector<engine::InferRequest>& requests) {
  const auto frame = answer(asked, patience(batch), static_cast<int>(asked.parts.size()));
  if (!frame.ok()) {
    lost(asked.address, frame.status());
    for (const int at : asked.parts)
      to.parts[static_cast<size_t>(at)].status = cut_off(asked.address, frame.status());
    return;
  }
  to.bytes += frame->bytes;
  TensorReader tensors(*frame, "");
  for (size_t i = 0; i < asked.parts.size(); ++i) {
    const auto at = static_cast<size_t>(asked.parts[i]);
    const Given& given = frame->message.inputs().given(static_cast<int>(i));
    if (given.code() != 0) {
      to.parts[at].status =
          absl::Status(static_cast<absl::StatusCode>(std::min(given.code(), 16u)), given.why());
      continue;
    }
    auto request = read_inputs(batch.parts(asked.parts[i]), given.tensors(), given.parameters(),
                               signature, tensors);
    to.parts[at] = {request.status(), given.numbers(), given.readers()};
    if (request.ok()) requests[at] = *std::move(request);
  }
}

void Holders::fetch_kept(Duration limit, Fetched& to, std::vector<engine::InferRequest>& requests) {
  std::map<std::string, FromKeeper> keepers;  // by address
  for (engine::InferRequest& request : requests) {
    for (Tensor& tensor : request.inputs) {
      if (tensor.data.elsewhere == nullptr) continue;
      Kept what;
      write_kept(*tensor.data.elsewhere, what);
      if (auto own = keeper_.give(what); own.ok()) {
        tensor.data = *std::move(own);
      } else {
        keepers[what.holder()].wanted.push_back(&tensor.data);
      }
    }
  }
  const Duration share = limit / static_cast<int64_t>(std::max<size_t>(keepers.size(), 1));
  const Duration each = std::max(share, kLeast);
  for (auto& [address, from] : keepers) {
    from.asked.address = address;
    Fetch& fetch = *from.asked.text.mutable_fetch();
    for (const Payload* wanted : from.wanted) write_kept(*wanted->elsewhere, *fetch.add_kept());
    ask(each, from.asked);
  }
  absl::Status gone;
  for (auto& [address, from] : keepers) {
    if (absl::Status got = receive_kept(each, from, to.bytes); !got.ok()) {
      gone = error(absl::StatusCode::kDataLoss, "what an earlier stage gave has gone with {}: {}",
                   address, message(got));
    }
  }
  if (gone.ok()) return;
  for (size_t i = 0; i < requests.size(); ++i) {
    for (const Tensor& tensor : requests[i].inputs) {
      if (tensor.data.elsewhere != nullptr) to.parts[i].status = gone;
    }
  }
}

// One that is only late may be slow for this batch: others do not do without it.
absl::Status Holders::receive_kept(Duration limit, FromKeeper& from, uint64_t& bytes) {
  const std::vector<Payload*>& wanted = from.wanted;
  const std::string& address = from.asked.address;
  const auto answered = answer(from.asked, limit, static_cast<int>(wanted.size()));
  if (!answered.ok()) {
    if (!from.asked.late) {
      lost(address, answered.status());
    } else if (drop(address)) {
      ways_.doubt(address, answered.status());
    }
    return answered.status();
  }
  const Frame& frame = *answered;
  bytes += frame.bytes;
  TensorReader tensors(frame);
  absl::Status failed;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Given& given = frame.message.inputs().given(static_cast<int>(i));
    if (given.code() != 0) {
      failed = not_found("{}", given.why());
      continue;
    }
    if (given.tensors_size() != 1) return invalid("{} tensors, expected 1", given.tensors_size());
    ASSIGN_OR_RETURN(const Tensor tensor, tensors.next(given.tensors(0)));
    if (tensor.data.bytes.size() != wanted[i]->size()) {
      return invalid("{} bytes, expected {}", tensor.data.bytes.size(), wanted[i]->size());
    }
    *wanted[i] = tensor.data;
  }
  return failed;
}

absl::StatusOr<Holders::Fetched> Holders::fetch(const Batch& batch, const engine::Variant& variant,
                                                Time now) {
  RETURN_IF_ERROR(check_batch(batch, variant.signature));
  const auto holders = static_cast<size_t>(batch.holders_size());
  const auto parts = static_cast<size_t>(batch.parts_size());
  std::vector<Asked> asked(holders);
  for (int i = 0; i < batch.parts_size(); ++i) {
    const uint32_t holder = batch.parts(i).holder();
    if (holder < 1 || holder > holders) return invalid("a part without a holder of its inputs");
    asked[holder - 1].parts.push_back(i);
  }
  Fetched fetched;
  fetched.parts.resize(parts);
  std::vector<engine::InferRequest> requests(parts);
  if (!fetching(true)) return error(absl::StatusCode::kUnavailable, "the worker stops");
  forget_unused(now);
  for (size_t h = 0; h < holders; ++h) {
    Asked& each = asked[h];
    if (each.parts.empty()) continue;
    each.address = batch.holders(static_cast<int>(h));
    for (const int at : each.parts) {
      write_piece(batch.parts(at), variant, *each.text.mutable_fetch()->add_pieces());
    }
    ask(patience(batch), each);
  }
  for (Asked& each : asked) {
    if (!each.parts.empty()) receive(batch, variant.signature, each, fetched, requests);
  }
  fetch_kept(patience(batch) / 2, fetched, requests);
  fetching(false);
  ReceivedBatch& received = fetched.batch;
  received.number = batch.number();
  received.requests = std::move(requests);
  received.run.to_the_end = batch.to_the_end();
  received.run.limit = Duration::nanos(static_cast<int64_t>(batch.limit_nanos()));
  for (size_t i = 0; i < parts; ++i) {
    if (!fetched.parts[i].status.ok()) continue;
    ASSIGN_OR_RETURN(received.run.parts.emplace_back(),
                     part_of(batch.parts(static_cast<int>(i)), received.requests[i], now));
  }
  return fetched;
}

bool Holders::keep(const Part& part, uint32_t readers, const Tensor& tensor, TensorHead& head) {
  const Duration left = Duration::nanos(static_cast<int64_t>(part.left_nanos()));
  const Duration as_long = left > Duration() ? std::max(left * 2, kKeptLeast) : Keeper::kLongest;
  const Time until = monotonic_now() + as_long;
  const std::optional<uint64_t> key = keeper_.keep(tensor.data.bytes, readers, until);
  if (!key) return false;
  Tensor kept{tensor.name, tensor.datatype, tensor.shape, {}};
  kept.data.elsewhere = std::make_shared<KeptElsewhere>(
      KeptElsewhere{{}, *key, 0, tensor.data.bytes.size(), tensor.name, {}});
  Outgoing().add(kept, head);
  return true;
}

uint64_t Holders::bring(const Batch& batch, const engine::Variant& variant, const Fetched& fetched,
                        engine::BatchResult& result) {
  uint64_t moved = 0;
  uint32_t items = 0;
  for (const Part& part : batch.parts()) items += std::max(part.items(), 1u);
  for (int h = 0; h < batch.holders_size(); ++h) {
    Outgoing out;
    out.message.mutable_outputs()->set_batch_items(items);
    out.message.mutable_outputs()->set_run_nanos(
        static_cast<uint64_t>(std::max<int64_t>(result.total().nanos(), 0)));
    std::vector<size_t> brought;
    for (int i = 0; i < batch.parts_size(); ++i) {
      const Part& part = batch.parts(i);
      auto& outputs = result.parts[static_cast<size_t>(i)];
      if (part.holder() != static_cast<uint32_t>(h) + 1 || !outputs.ok()) continue;
      Answered& answered = *out.message.mutable_outputs()->add_answered();
      write_piece(part, variant, *answered.mutable_piece());
      const uint32_t readers = fetched.parts[static_cast<size_t>(i)].readers;
      for (const Tensor& tensor : *outputs) {
        TensorHead& head = *answered.add_tensors();
        if (readers == 0 || !keep(part, readers, tensor, head)) out.add(tensor, head);
      }
      brought.push_back(static_cast<size_t>(i));
    }
    if (brought.empty()) continue;
    const std::string& address = batch.holders(h);
    absl::Status sent = out.check();
    const bool too_much = !sent.ok();
    if (sent.ok()) {
      const auto link = this->link(address, patience(batch));
      sent = link.status();
      if (link.ok()) {
        Channel& channel = *link->channel;
        channel.expect_by(monotonic_now() + kBrings);
        sent = channel.send(out.message, out.payload);
        channel.expect_by(Time::infinite());
      }
    }
    if (sent.ok()) moved += out.bytes();
    if (!sent.ok() && !too_much) lost(address, sent);
    for (const size_t at : brought) {
      if (sent.ok()) {
        result.parts[at] = std::vector<Tensor>();
      } else {
        result.parts[at] = too_much ? sent : cut_off(address, sent);
      }
    }
  }
  return moved;
}

}  // namespace fermata::cluster
