#include "cluster/frontend/held_requests.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/status.h"
#include "engine/execute/gather.h"

namespace fermata::cluster {
namespace {

// After its deadline, which the scheduler keeps; this is for when nothing is heard of that.
constexpr Duration kPastDeadline = Duration::millis(25);
// A scheduler says something more often than that (beats.h).
constexpr Duration kHeardWithin = Duration::millis(40);
// From the scheduler's word to the outputs: a worker sends them first.
constexpr Duration kOutputsCome = Duration::millis(500);
constexpr uint32_t kMostAsked = 5;  // times, for outputs that do not come

bool is_kept(const Tensor& tensor) { return tensor.data.elsewhere != nullptr; }

absl::Status client_gone() { return error(absl::StatusCode::kCancelled, "the client has gone"); }

}  // namespace

// Who asks does so beyond the lock: that may take a while.
void HeldRequests::Held::is_asked(uint64_t of_session) {
  session = of_session;
  fetched = false;
  told.reset();
  again = again || asked > 0;
  ++asked;
}

void HeldRequests::add(uint64_t key, Request request, uint64_t session, Ask ask) {
  auto held = std::make_shared<Held>(std::move(request));
  if (session != 0) held->is_asked(session);
  Shard& of = shard(key);
  std::optional<absl::Status> over;
  bool cancelled = false;
  {
    const std::lock_guard lock(of.mutex);
    over = of.over;
    cancelled = of.let_go(key);
    if (!over && !cancelled) of.held.emplace(key, held);
  }
  if (cancelled) return refuse(*held, client_gone(), engine::Outcome::kCancelled);
  if (over) return refuse(*held, *std::move(over), engine::Outcome::kUnavailable);
  if (session != 0) ask(key, held->of);
}

// In the order in which they came: a stream's scheduler counts with the times of its frames.
void HeldRequests::ask_again(uint32_t division, uint64_t session, Ask ask) {
  Some some;
  for (Shard& of : shards_) {
    const std::lock_guard lock(of.mutex);
    for (const auto& [key, held] : of.held) {
      if (held->of.division != division || held->session == session) continue;
      held->is_asked(session);
      held->asked = 1;
      some.emplace_back(key, held);
    }
  }
  absl::c_sort(some, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [key, held] : some) ask(key, held->of);
}

void HeldRequests::lost(uint64_t session) {
  for (Shard& of : shards_) {
    std::vector<std::shared_ptr<Held>> whole;
    {
      const std::lock_guard lock(of.mutex);
      for (auto it = of.held.begin(); it != of.held.end();) {
        Held& held = *it->second;
        if (held.session == session) held.session = 0;
        if (held.session != 0 || !held.answered()) {
          ++it;
          continue;
        }
        whole.push_back(std::move(it->second));
        it = of.held.erase(it);
      }
    }
    for (const auto& held : whole) answer(*held);
  }
}

absl::StatusOr<uint32_t> HeldRequests::base_model(const Request& request,
                                                  const std::string& model) {
  const auto& names = request.ensemble->names;
  const auto at = absl::c_find(names, model);
  if (at == names.end())
    return invalid("model '{}' is none of '{}'", model, request.request.service);
  return static_cast<uint32_t>(at - names.begin());
}

absl::StatusOr<HeldRequests::Wanted> HeldRequests::fetch(const Items& of) {
  std::shared_ptr<Held> held;
  {
    Shard& in = shard(of.key);
    const std::lock_guard lock(in.mutex);
    const auto it = in.held.find(of.key);
    if (it == in.held.end()) {
      return error(absl::StatusCode::kCancelled, "its frontend waits for it no more");
    }
    held = it->second;
    held->fetched = true;
  }
  const Request& request = held->of;
  Wanted wanted{request.request.inputs, request.request.parameters};  // which nothing changes
  if (may_stay(request, of)) wanted.readers = request.request.readers;
  if (request.ensemble != nullptr) {
    ASSIGN_OR_RETURN(const uint32_t model, base_model(request, of.model));
    wanted.numbers = request.ensemble->model->width();
    if (!request.ensemble->same_inputs) {
      wanted.inputs = request.ensemble->inputs_of(model, wanted.inputs);
    }
  }
  if (!request.variant->signature.batches) return wanted;
  for (Tensor& tensor : wanted.inputs) {
    ASSIGN_OR_RETURN(tensor.data, engine::rows(tensor, of.first, of.items));
    tensor.shape[0] = of.items;
  }
  return wanted;
}

// Whether a worker may keep what it gives of these items. Parts would have to be joined.
bool HeldRequests::may_stay(const Request& request, const Items& of) {
  return request.request.readers > 0 && request.ensemble == nullptr &&
         (!request.variant->signature.batches || of.items == request.admitted.items);
}

absl::Status HeldRequests::put(Held& held, const Items& of, std::vector<Tensor> outputs) {
  if (held.of.ensemble == nullptr) {
    held.answers.put(of.first, of.items, std::move(outputs));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const uint32_t model, base_model(held.of, of.model));
  return held.answers.put_answer(model, of.first, std::move(outputs));
}

// What the model that ran it has given, of those that answer the request.
static absl::StatusOr<std::vector<Tensor>> read_given(const HeldRequests::Request& request,
                                                      const HeldRequests::Items& of,
                                                      absl::StatusOr<uint32_t> model, bool may_stay,
                                                      HeldRequests::Read read) {
  const uint64_t all = request.admitted.items;
  const uint32_t most = request.ensemble == nullptr ? request.admitted.items : 1;
  if (of.items < 1 || of.items > most || uint64_t{of.first} + of.items > all) {
    return internal("{} items from {} on, of {}", of.items, of.first, all);
  }
  if (request.ensemble != nullptr) RETURN_IF_ERROR(model.status());
  auto outputs =
      request.ensemble == nullptr
          ? read({request.request.inputs, request.request.outputs, request.variant->signature})
          : read({request.request.inputs, request.ensemble->outputs[*model],
                  request.ensemble->variants[*model]->signature});
  if (outputs.ok() && !may_stay && absl::c_any_of(*outputs, is_kept)) {
    return internal("it keeps outputs that it has to bring");
  }
  return outputs;
}

// What is known of it here, without what its scheduler would say.
static engine::ReplyPart as_it_ran(const HeldRequests::Request& request,
                                   const HeldRequests::Items& of, const HeldRequests::Ran& ran) {
  const Duration waited = ran.now - request.request.arrival - ran.run;
  return {.why = {.variant = of.model.empty() ? request.variant->model : of.model,
                  .batch_items = ran.batch_items,
                  .queueing = std::max(waited, Duration()),
                  .run = ran.run}};
}

bool HeldRequests::take(const Items& of, const Ran& ran, Read read) {
  Shard& in = shard(of.key);
  std::shared_ptr<Held> held;
  {
    const std::lock_guard lock(in.mutex);
    if (const auto it = in.held.find(of.key); it != in.held.end()) held = it->second;
  }
  if (held == nullptr) return false;
  const auto model = held->of.ensemble == nullptr ? 0 : base_model(held->of, of.model);
  absl::StatusOr<std::vector<Tensor>> outputs =
      read_given(held->of, of, model, may_stay(held->of, of), read);
  absl::Status good = outputs.status();
  {
    const std::lock_guard lock(in.mutex);
    const auto it = in.held.find(of.key);
    // Else it may have been put there anew, with inputs that have come again.
    if (it == in.held.end() || it->second != held) return false;
    if (good.ok()) good = put(*held, of, *std::move(outputs));
    if (good.ok()) {
      if (!held->ends_itself() && !(held->told.has_value() && held->whole())) return true;
      if (!held->told.has_value()) held->told = Word{as_it_ran(held->of, of, ran), {}};
    }
    in.held.erase(it);
  }
  if (!good.ok()) {
    refuse(*held, internal("a worker's wrong answer: {}", message(good)), engine::Outcome::kFailed);
  } else {
    answer(*held);
  }
  return true;
}

void HeldRequests::told(uint64_t key, Word word, Time now) {
  Shard& of = shard(key);
  std::shared_ptr<Held> held;
  absl::Status good;
  {
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) return;
    Held& own = *it->second;
    own.told = std::move(word);
    own.told_at = now;
    if (own.told->reply.status.ok()) {
      good = own.answers.check(own.told->answered_by);
      if (good.ok() && !own.whole()) return;
    }
    held = std::move(it->second);
    of.held.erase(it);
  }
  if (good.ok()) return answer(*held);
  refuse(*held, internal("a scheduler's wrong reply: {}", message(good)), engine::Outcome::kFailed);
}

std::optional<uint32_t> HeldRequests::cancel(uint64_t key) {
  Shard& of = shard(key);
  std::shared_ptr<Held> held;
  {
    const std::lock_guard lock(of.mutex);
    const auto it = of.held.find(key);
    if (it == of.held.end()) {
      if (const auto away = of.away.find(key); away != of.away.end()) away->second = true;
      return {};
    }
    held = std::move(it->second);
    of.held.erase(it);
  }
  refuse(*held, client_gone(), engine::Outcome::kCancelled);
  return held->of.division;
}

void HeldRequests::look(Time now, absl::Span<const Scheduler> by_division, Ask ask, Ask gave_up) {
  for (Shard& of : shards_) {
    Some ended, missed;
    {
      const std::lock_guard lock(of.mutex);
      for (auto it = of.held.begin(); it != of.held.end();) {
        Held& held = *it->second;
        const auto [session, heard] = by_division[held.of.division];
        // Of what runs a scheduler knows whether its worker is there still.
        const bool runs = held.fetched && held.session != 0 && now - heard < kHeardWithin;
        const bool past = !held.of.deadline.is_infinite() && now - held.of.deadline > kPastDeadline;
        const bool late = past && (held.told || held.whole() || !runs);
        const bool missing = held.told && now - held.told_at > kOutputsCome;
        const bool asks_again = missing && held.asked < kMostAsked && now < held.of.deadline;
        if (late) {
          ended.emplace_back(it->first, std::move(it->second));
          it = of.held.erase(it);
          continue;
        }
        if (session != 0 && (held.session != session || asks_again)) {
          held.is_asked(session);
          missed.emplace_back(*it);
        } else if (missing && (session != 0 || now >= held.of.deadline)) {
          ended.emplace_back(it->first, std::move(it->second));
          it = of.held.erase(it);
          continue;
        }
        ++it;
      }
    }
    for (const auto& [key, held] : missed) ask(key, held->of);
    for (const auto& [key, held] : ended) {
      gave_up(key, held->of);
      if (held->whole()) {
        answer(*held);
      } else if (held->told && now < held->of.deadline) {
        refuse(*held, error(absl::StatusCode::kUnavailable, "the worker's outputs did not come"),
               engine::Outcome::kUnavailable);
      } else {
        refuse(*held,
               error(absl::StatusCode::kDeadlineExceeded, "{}",
                     held->told ? "the worker's outputs did not come in time"
                                : "no scheduler has said in time what becomes of it"),
               engine::Outcome::kRejectedDeadline);
      }
    }
  }
}

void HeldRequests::end_all(const absl::Status& why) {
  for (Shard& of : shards_) {
    std::unordered_map<uint64_t, std::shared_ptr<Held>> all;
    {
      const std::lock_guard lock(of.mutex);
      of.over = why;
      all.swap(of.held);
    }
    for (const auto& [key, held] : all) refuse(*held, why, engine::Outcome::kUnavailable);
  }
}

size_t HeldRequests::size() const {
  size_t sum = 0;
  for (const Shard& of : shards_) {
    const std::lock_guard lock(of.mutex);
    sum += of.held.size();
  }
  return sum;
}

void HeldRequests::answer(Held& held) {
  Word word = held.told ? *std::move(held.told) : Word();
  engine::ReplyPart& reply = word.reply;
  if (reply.version.empty()) reply.version = held.of.variant->version;
  reply.model = held.of.request.service;
  reply.id = held.of.request.id;
  if (reply.status.ok()) {
    auto joined = held.answers.join(word.answered_by);
    if (joined.ok()) {
      reply.outputs = *std::move(joined);
      note_source(held.of, reply.outputs);
    } else {
      reply.status = joined.status();
      reply.why.outcome = engine::Outcome::kFailed;
    }
  }
  held.of.bytes = HeldBytes();
  held.of.reply(std::move(reply));
}

void HeldRequests::note_source(Request& request, std::vector<Tensor>& outputs) {
  std::shared_ptr<Source> source;
  for (Tensor& output : outputs) {
    if (!is_kept(output)) continue;
    if (source == nullptr) {
      source = std::make_shared<Source>(Source{request.request, std::move(request.bytes)});
      source->request.readers = 0;  // next time it comes here
    }
    auto kept = std::make_shared<KeptElsewhere>(*output.data.elsewhere);
    kept->source = source;
    output.data.elsewhere = std::move(kept);
  }
}

std::optional<HeldRequests::Request> HeldRequests::leave(
    uint64_t key, absl::FunctionRef<bool(const Request&)> is_it) {
  Shard& of = shard(key);
  const std::lock_guard lock(of.mutex);
  const auto it = of.held.find(key);
  if (it == of.held.end() || !is_it(it->second->of)) return {};
  const std::shared_ptr<Held> held = std::move(it->second);
  of.held.erase(it);
  of.away.emplace(key, false);
  Request& from = held->of;  // others may read it, but for what its end needs
  return Request{.request = from.request,
                 .reply = std::move(from.reply),
                 .admitted = from.admitted,
                 .variant = from.variant,
                 .ensemble = from.ensemble,
                 .stream = from.stream,
                 .deadline = from.deadline,
                 .bytes = std::move(from.bytes),
                 .division = from.division,
                 .asked_as = from.asked_as};
}

std::optional<HeldRequests::Request> HeldRequests::lose_inputs(uint64_t key) {
  return leave(key, [](const Request& of) { return absl::c_any_of(of.request.inputs, is_kept); });
}

std::optional<HeldRequests::Request> HeldRequests::take_frame(uint64_t key) {
  return leave(key, [](const Request& of) { return of.stream != nullptr; });
}

bool HeldRequests::Shard::let_go(uint64_t key) {
  const auto was = away.extract(key);
  return !was.empty() && was.mapped();
}

bool HeldRequests::let_go(uint64_t key) {
  Shard& of = shard(key);
  const std::lock_guard lock(of.mutex);
  return of.let_go(key);
}

void HeldRequests::refuse(Held& held, absl::Status why, engine::Outcome outcome) {
  held.told = Word{{.status = std::move(why), .why = {.outcome = outcome}}, {}};
  answer(held);
}

}  // namespace fermata::cluster
