#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/agreement.h"
#include "load/http_codec.h"
#include "load/http_response.h"
#include "load/records.h"
#include "load/spec.h"
#include "simulate/arrivals_document.h"

// Everything the load generator reads: input files, traces, service arguments,
// and what a server answers.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fermata;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto records = load::parse_records(text); records.ok()) {
    for (const load::Record& record : *records) {
      (void)load::agrees(record.label.value_or(int64_t{0}), record.inputs);
    }
  }
  (void)simulate::parse_trace(text);
  (void)load::parse_service(text);
  load::HttpResponseParser parser;
  const auto complete = parser.feed(text);
  if ((complete.ok() && *complete) || parser.feed_end()) {
    const load::HttpResponse response = parser.take();
    (void)load::decode_infer(response, true, true);
    (void)load::decode_metadata(response);
  }
  return 0;
}
