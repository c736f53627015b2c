#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/document.h"
#include "engine/snapshot.h"
#include "tune/history.h"
#include "tune/recorder.h"
#include "tune/setup.h"

namespace fermata::serve {

// The JSON of /v2/live (docs/live.md). Times are microseconds of the server's monotonic clock.
std::string live_text(const Json& json);  // what is not UTF-8 is replaced
Json us_or_null(Time t);

Json json_of(const tune::Period& period);
Json json_of(const std::vector<tune::ServiceFacts>& services);
Json json_of(const std::vector<engine::ModelStatus>& unserved);
Json workers_json(const engine::EngineSnapshot& snapshot);

// The names that numbers of the recorder stand for.
class LiveNames {
 public:
  explicit LiveNames(const tune::Recorder& recorder) : recorder_(recorder) {}
  const std::string& service(uint32_t number);
  const std::string& model(VariantId id);

 private:
  const tune::Recorder& recorder_;
  std::map<uint32_t, std::string> services_;
  std::map<VariantId, std::string> models_;
};
// The `timeline` event's data: written as text, since it comes often.
std::string timeline_json(const tune::Recorder::Changes& changes, LiveNames& names, Time now);

// What a person reads of why a batch started when it did.
std::string why_started(const tune::RecordedBatch& batch, const tune::BatchWait& wait);

}  // namespace fermata::serve
