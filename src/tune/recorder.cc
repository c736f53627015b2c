#include "tune/recorder.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"

namespace fermata::tune {
namespace {

constexpr std::chrono::milliseconds kCollectEvery(50);
constexpr size_t kEventsAtOnce = 4096, kMostEarly = 4096;
constexpr size_t kMostKept = 4 * kEventsAtOnce;  // room for events, from one time to the next
constexpr double kQueueShare = 0.25;             // of the memory
constexpr double kMebibyte = 1 << 20;
constexpr int kNice = 10;

}  // namespace

Recorder::Recorder(RecorderOptions options) : options_(options), queue_(room_of_queue()) {
  // The queue prefers memory that it has never used: once through all of it, so that what it takes
  // does not grow with the first events, and those after lie where the last ones did.
  Event event;
  for (size_t i = 0; i < room_of_queue(); ++i) {
    queue_.try_enqueue(event);
    queue_.try_dequeue(event);
  }
  taken_.resize(kMostEarly + kEventsAtOnce);
  thread_ = std::thread([this] { run(); });
}

size_t Recorder::room_of_queue() const {
  return static_cast<size_t>(options_.memory_mb * kMebibyte * kQueueShare / sizeof(Event));
}

Recorder::~Recorder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  thread_.join();
}

void Recorder::run() {
  pthread_setname_np(pthread_self(), "recorder");
  setpriority(PRIO_PROCESS, 0, kNice);  // of this thread, on Linux
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, kCollectEvery, [this] { return stop_; })) collect_locked();
}

void Recorder::put(const Event& event) {
  if (!queue_.try_enqueue(event)) lost_.fetch_add(1, std::memory_order_relaxed);
}

uint32_t Recorder::service(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto [at, is_new] =
      numbers_.try_emplace(std::string(name), static_cast<uint32_t>(services_.size()));
  if (is_new) services_.emplace_back(name);
  return at->second;
}

void Recorder::model(VariantId id, std::string_view name) {
  const std::lock_guard lock(mutex_);
  models_[id] = name;
}

void Recorder::came(const Came& event) {
  CameEvent kept{event, ShortText(event.client_id)};
  kept.event.client_id = {};
  put(kept);
}

void Recorder::bound(const Bound& event) {
  BoundEvent kept{event};
  kept.event.members = {};
  kept.first.fill({JobId::none(), Time()});
  const size_t first = std::min(kFirstMembers, event.members.size());
  std::copy_n(event.members.begin(), first, kept.first.begin());
  put(kept);
  for (size_t i = first; i < event.members.size(); i += kMembersAtOnce) {
    Members some{.batch = event.batch};
    some.count = static_cast<uint32_t>(std::min(kMembersAtOnce, event.members.size() - i));
    for (size_t k = 0; k < some.count; ++k) some.members[k] = event.members[i + k];
    put(some);
  }
}

void Recorder::ended(const BatchEnded& event) { put(event); }
void Recorder::ended(const Ended& event) { put(event); }
void Recorder::ran(const OperatorRan& event) { put(event); }
void Recorder::loaded(const Loaded& event) { put(event); }

void Recorder::died(const Died& event) {
  put(RecordedDeath{event.worker, event.model, event.at, ShortText(event.cause)});
}

void Recorder::changed(uint64_t batch) {
  if (!watched_) return;
  if (changed_.size() < 2 * kMostChanges) {
    changed_.push_back(batch);
  } else {
    ++left_out_;
  }
}

void Recorder::collect() {
  const std::lock_guard lock(mutex_);
  collect_locked();
}

// An event may overtake one of another thread that it is about, by a moment: it is tried again
// the next time, once.
void Recorder::collect_locked() {
  const size_t tried = early_.size();
  std::copy(early_.begin(), early_.end(), taken_.begin());
  early_.clear();
  size_t all = tried;
  for (size_t got = 1; got > 0; all += got) {
    if (taken_.size() - all < kEventsAtOnce) taken_.resize(2 * taken_.size());
    got = queue_.try_dequeue_bulk(taken_.data() + all, taken_.size() - all);
  }
  // Those of a kind come after those that they may be about.
  for (std::vector<uint32_t>& kind : by_kind_) kind.clear();
  for (uint32_t i = 0; i < all; ++i) by_kind_[taken_[i].index()].push_back(i);
  for (const std::vector<uint32_t>& kind : by_kind_) {
    for (const uint32_t i : kind) {
      if (take(taken_[i])) continue;
      if (i >= tried && early_.size() < kMostEarly) {
        early_.push_back(taken_[i]);
      } else {
        lost_.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  if (taken_.size() > kMostKept) std::vector<Event>(kMostEarly + kEventsAtOnce).swap(taken_);
  forget_the_old(monotonic_now());
}

void Recorder::joined(RecordedBatch& batch, const Member& member) {
  if (batch.requests.empty() || batch.requests.back() != member.request) {
    batch.requests.push_back(member.request);
    ++members_;
  }
  RecordedRequest* const own = requests_.find(member.request.value());
  if (own == nullptr) return;
  own->nominated = std::min(own->nominated, member.nominated);
  if (own->batch == 0) own->batch = batch.id;
}

void Recorder::take_coming(const CameEvent& came) {
  const Came& e = came.event;
  if (!e.parent.is_none()) {
    RecordedRequest* const whole = requests_.find(e.parent.value());
    if (whole != nullptr) whole->has_parts = true;
  }
  RecordedRequest& own = requests_.add(e.id.value());
  own.parent = e.parent;
  own.service = e.service;
  own.items = e.items;
  own.arrival = e.arrival;
  own.submitted = e.submitted;
  own.deadline = e.deadline;
  own.network_ms = static_cast<float>(e.network.millis());
  own.client_id = came.client_id;
}

void Recorder::take_bound(const BoundEvent& bound) {
  const Bound& e = bound.event;
  RecordedBatch& own = batches_.add(e.batch);
  own.worker = e.worker;
  own.service = e.service;
  own.items = e.items;
  own.model = e.model;
  own.bound = e.at;
  own.wanted = e.wanted;
  own.expected_start = e.start;
  own.expected_end = e.finish;
  own.rule = e.rule;
  own.load = e.load;
  for (const Member& member : bound.first) {
    if (!member.request.is_none()) joined(own, member);
  }
  changed(e.batch);
}

bool Recorder::take(const Event& event) {
  if (const auto* came = std::get_if<CameEvent>(&event)) {
    take_coming(*came);
    return true;
  }
  if (const auto* bound = std::get_if<BoundEvent>(&event)) {
    take_bound(*bound);
    return true;
  }
  if (const auto* members = std::get_if<Members>(&event)) {
    RecordedBatch* const to = batches_.find(members->batch);
    if (to == nullptr) return false;
    for (size_t i = 0; i < members->count; ++i) joined(*to, members->members[i]);
    return true;
  }
  if (const auto* end = std::get_if<BatchEnded>(&event)) {
    RecordedBatch* const own = batches_.find(end->batch);
    if (own == nullptr) return false;
    own->start = end->started;
    own->end = end->ended;
    own->failed = end->failed;
    changed(own->id);
    return true;
  }
  if (const auto* end = std::get_if<Ended>(&event)) return take_end(*end);
  if (const auto* ran = std::get_if<OperatorRan>(&event)) {
    operators_.push_back(*ran);
    return true;
  }
  if (const auto* died = std::get_if<RecordedDeath>(&event)) {
    deaths_.push_back(*died);
    if (watched_ && new_deaths_.size() < kMostChanges) new_deaths_.push_back(*died);
    return true;
  }
  loads_.push_back(std::get<Loaded>(event));
  if (watched_ && new_loads_.size() < kMostChanges) new_loads_.push_back(loads_.back());
  return true;
}

bool Recorder::take_end(const Ended& event) {
  RecordedRequest* const own = requests_.find(event.request.value());
  if (own == nullptr) return false;
  own->end = event.at;
  own->outcome = event.outcome;
  own->queueing = event.queueing;
  own->run = event.run;
  own->model = event.model;
  own->subset = event.subset;
  own->accuracy = event.accuracy;
  if (!own->answered()) return true;
  if (answers_.size() <= event.service) answers_.resize(event.service + 1);
  Answers& answers = answers_[event.service];
  answers.latency.record(own->end - own->arrival);
  if (!event.model.is_none() || event.subset != 0) ++answers.by[{event.model, event.subset}];
  if (event.accuracy > 0) {
    answers.accuracy += event.accuracy;
    ++answers.judged;
  }
  return true;
}

size_t Recorder::bytes() const {
  return requests_.bytes() + batches_.bytes() + members_ * 2 * sizeof(JobId) +
         operators_.size() * sizeof(RecordedOperator) + loads_.size() * sizeof(RecordedLoad) +
         deaths_.size() * sizeof(RecordedDeath);
}

double Recorder::memory_mb() const {
  const std::lock_guard lock(mutex_);
  return static_cast<double>(bytes()) / kMebibyte + options_.memory_mb * kQueueShare;
}

void Recorder::forget_batch() {
  members_ -= batches_.front().requests.size();
  batches_.pop_front();
}

// Of all kinds what began before the same moment, so that what is left is whole.
void Recorder::forget_the_old(Time now) {
  Time before = now - options_.keep;
  const auto most = static_cast<size_t>(options_.memory_mb * kMebibyte * (1 - kQueueShare));
  const auto forget = [this, &before] {
    while (!requests_.empty() && requests_.front().arrival < before) requests_.pop_front();
    while (!batches_.empty() && batches_.front().bound < before) forget_batch();
    while (!operators_.empty() && operators_.front().from < before) operators_.pop_front();
    while (!loads_.empty() && loads_.front().from < before) loads_.pop_front();
    while (!deaths_.empty() && deaths_.front().at < before) deaths_.pop_front();
  };
  forget();
  while (bytes() > most) {
    const size_t some = requests_.size() / 16 + 1;
    const size_t some_batches = batches_.size() / 16 + 1;
    before = now;
    if (some < requests_.size()) {
      before = requests_[some].arrival;
    } else if (some_batches < batches_.size()) {
      before = batches_[some_batches].bound;
    }
    if (!requests_.empty()) requests_.pop_front();
    if (!batches_.empty() && requests_.empty()) forget_batch();
    forget();
  }
}

Recording Recorder::copy(Duration most, Time now) const {
  const std::lock_guard lock(mutex_);
  Recording made{.services = services_, .models = models_, .lost = lost()};
  made.to = now;
  made.from = now - std::min(most, options_.keep);
  // What was before the first request is not known, or nothing. They are nearly in order only.
  Time first = Time::infinite();
  for (size_t i = 0; i < requests_.size(); ++i) first = std::min(first, requests_[i].arrival);
  if (!requests_.empty()) made.from = std::max(made.from, first);
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (requests_[i].arrival >= made.from) made.requests.push_back(requests_[i]);
  }
  for (size_t i = 0; i < batches_.size(); ++i) {
    if (batches_[i].bound >= made.from) made.batches.push_back(batches_[i]);
  }
  for (const RecordedOperator& each : operators_) {
    if (each.from >= made.from) made.operators.push_back(each);
  }
  for (const RecordedLoad& each : loads_) {
    if (each.from >= made.from) made.loads.push_back(each);
  }
  for (const RecordedDeath& each : deaths_) {
    if (each.at >= made.from) made.deaths.push_back(each);
  }
  return made;
}

std::map<std::string, Answers> Recorder::take_answers() {
  const std::lock_guard lock(mutex_);
  std::map<std::string, Answers> taken;
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (answers_[i].latency.count() == 0) continue;
    taken[services_[i]] = std::exchange(answers_[i], Answers());
  }
  return taken;
}

std::string Recorder::service_name(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  return number < services_.size() ? services_[number] : std::string();
}

std::string Recorder::model_name(VariantId id) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(id);
  return found == models_.end() ? std::string() : found->second;
}

}  // namespace fermata::tune
