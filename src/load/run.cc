#include "load/run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "load/ledger.h"
#include "load/records.h"
#include "load/schedule.h"

namespace fermata::load {
namespace {

constexpr size_t kMadeUpRecords = 16;
constexpr Duration kHeadStart = Duration::millis(20);
constexpr Duration kBetweenSigns = Duration::millis(100);  // of progress
// Streams of the seed beyond those that schedules draw from.
constexpr uint64_t kRecordStream = uint64_t{1} << 32;

using Records = std::vector<std::vector<Record>>;

// The input records of every service that has a file of requests.
absl::StatusOr<Records> load_files(const LoadSpec& spec) {
  Records records(spec.services.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const std::string& inputs = spec.services[i].inputs;
    if (inputs.empty() || is_npy(inputs)) continue;
    ASSIGN_OR_RETURN(records[i], load_records(inputs));
  }
  return records;
}

// Makes sure that every service is there, and takes the inputs that are missing from arrays, or
// makes them up.
absl::Status meet(const LoadSpec& spec, Transport& transport, Records& records) {
  for (size_t i = 0; i < records.size(); ++i) {
    const ServiceLoad& service = spec.services[i];
    const auto inputs = transport.inputs_of(service.name, service.version);
    if (!inputs.ok()) {
      return error(inputs.status().code(), "{} at {}: {}", service.name, spec.address,
                   message(inputs.status()));
    }
    if (!records[i].empty()) continue;
    if (is_npy(service.inputs)) {
      ASSIGN_OR_RETURN(records[i], npy_records(service.inputs, *inputs));
      continue;
    }
    ASSIGN_OR_RETURN(records[i],
                     random_records(*inputs, kMadeUpRecords, Random(spec.seed, kRecordStream + i)));
  }
  return absl::OkStatus();
}

// The transport's index of every record of every service.
std::vector<std::vector<uint32_t>> prepare(const LoadSpec& spec, const Records& records,
                                           Transport& transport) {
  std::vector<std::vector<uint32_t>> questions(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    const ServiceLoad& service = spec.services[i];
    for (const Record& record : records[i]) {
      questions[i].push_back(
          transport.prepare({service.name, service.version, record.inputs, service.timeout,
                             spec.explain, record.label.has_value()}));
    }
  }
  return questions;
}

// Waits until `at`, showing progress; returns the time then.
Time wait_until(Time at, const std::function<void(Time)>& show) {
  for (;;) {
    const Time now = monotonic_now();
    show(now);
    if (now >= at) return now;
    const Duration rest = std::min(at - now, kBetweenSigns);
    std::this_thread::sleep_for(std::chrono::nanoseconds(rest.nanos()));
  }
}

struct Window {
  Time start, counted, end;
  double share(Time now) const { return (now - start).seconds() / (end - start).seconds(); }
};

Window window_of(const LoadSpec& spec) {
  const Time start = monotonic_now() + kHeadStart;
  return {start, start + spec.warmup, start + spec.warmup + spec.duration};
}

void send_all(Schedule& schedule, const Window& window,
              const std::vector<std::vector<uint32_t>>& questions, Transport& transport,
              const ProgressFunction& progress, LoadResult& result) {
  const auto show = [&](Time now) {
    progress(window.share(now), now < window.counted ? "warming up" : "");
  };
  for (auto sending = schedule.next(); sending && sending->scheduled < window.end;
       sending = schedule.next()) {
    const Time now = wait_until(sending->scheduled, show);
    sending->sent = now;
    if (sending->scheduled >= window.counted) result.lag.record(now - sending->scheduled);
    transport.send(questions[sending->service][sending->record], *sending);
    ++result.sent;
  }
}

void drain(const LoadSpec& spec, uint64_t sent, Ledger& ledger, Transport& transport,
           const ProgressFunction& progress) {
  for (Duration waited; waited < spec.drain; waited += kBetweenSigns) {
    if (ledger.wait_for_all(sent, kBetweenSigns)) return;
    progress(1, "waiting for the last answers");
  }
  if (ledger.wait_for_all(sent, Duration())) return;
  ledger.give_up();
  transport.abandon();
}

}  // namespace

absl::StatusOr<LoadResult> run_load(const LoadSpec& spec, const ProgressFunction& progress) {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // wake within a microsecond or so
  ASSIGN_OR_RETURN(Records records, load_files(spec));
  Ledger ledger(spec, records);
  ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                   make_transport(spec.protocol, spec.address, ledger));
  RETURN_IF_ERROR(meet(spec, *transport, records));
  const auto questions = prepare(spec, records, *transport);
  std::vector<size_t> counts;
  for (const auto& of_service : records) counts.push_back(of_service.size());

  LoadResult result;
  const Window window = window_of(spec);
  ledger.count_from(window.counted);
  Schedule schedule(spec, counts, window.start);
  send_all(schedule, window, questions, *transport, progress, result);
  drain(spec, result.sent, ledger, *transport, progress);
  result.connections = transport->connections();
  transport.reset();
  result.services = ledger.take_accounts();
  return result;
}

}  // namespace fermata::load
