#include "serve/live/live_trace.h"

#include <fmt/format.h>

#include <iterator>
#include <set>
#include <string_view>

#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

// Processes of the trace.
constexpr int kWorkers = 1, kServices = 2;

std::string as_json(std::string_view text) {
  std::string json;
  append_json(text, json);
  return json;
}

double us_of(Time t) { return static_cast<double>(t.nanos()) * 1e-3; }

class TraceWriter {
 public:
  explicit TraceWriter(const tune::Recording& recording) : recording_(recording) {}

  std::string write() {
    out_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
    name("process_name", kWorkers, 0, "workers");
    name("process_name", kServices, 0, "requests");
    for (const tune::RecordedBatch& batch : recording_.batches) add(batch);
    for (const tune::RecordedLoad& load : recording_.loads) {
      worker(load.worker);
      const std::string text = as_json(fmt::format("load {}", recording_.model(load.model)));
      append(R"({{"name":{},"cat":"load","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}}},)",
             text, kWorkers, load.worker, us_of(load.from), (load.to - load.from).micros());
    }
    for (const tune::RecordedDeath& death : recording_.deaths) {
      worker(death.worker);
      const std::string text =
          as_json(fmt::format("{} died ({})", recording_.model(death.model), death.cause.view()));
      append(R"({{"name":{},"cat":"death","ph":"i","s":"t","pid":{},"tid":{},"ts":{:.3f}}},)", text,
             kWorkers, death.worker, us_of(death.at));
    }
    for (const tune::RecordedRequest& request : recording_.requests) add(request);
    if (out_.back() == ',') out_.pop_back();
    return out_ + "]}";
  }

 private:
  template <class... Values>
  void append(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
  }
  void name(std::string_view what, int process, uint32_t thread, std::string_view text) {
    append(R"({{"name":"{}","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}},)", what, process,
           thread, as_json(text));
  }
  void worker(uint32_t number) {
    if (workers_.insert(number).second) {
      name("thread_name", kWorkers, number, fmt::format("worker {}", number));
    }
  }
  void add(const tune::RecordedBatch& batch) {
    if (batch.end.is_infinite()) return;
    worker(batch.worker);
    const std::string text =
        as_json(fmt::format("{} x {}", recording_.model(batch.model), batch.items));
    append(R"({{"name":{},"cat":"batch","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},)",
           text, kWorkers, batch.worker, us_of(batch.start), (batch.end - batch.start).micros());
    append(R"("args":{{"batch":{},"items":{},"requests":{},"rule":"{}"}}}},)", batch.id,
           batch.items, batch.requests.size(), policy::name(batch.rule));
  }
  void add(const tune::RecordedRequest& request) {
    if (!request.ended()) return;
    const std::string text = as_json(recording_.service(request.service));
    append(R"({{"name":{},"cat":"request","ph":"b","id":{},"pid":{},"tid":0,"ts":{:.3f},)", text,
           request.id.value(), kServices, us_of(request.arrival));
    append(R"("args":{{"outcome":"{}"}}}},)", engine::name(request.outcome));
    append(R"({{"name":{},"cat":"request","ph":"e","id":{},"pid":{},"tid":0,"ts":{:.3f}}},)", text,
           request.id.value(), kServices, us_of(request.end));
  }

  const tune::Recording& recording_;
  std::set<uint32_t> workers_;
  std::string out_;
};

}  // namespace

std::string trace_json(const tune::Recording& recording) { return TraceWriter(recording).write(); }

}  // namespace fermata::serve
