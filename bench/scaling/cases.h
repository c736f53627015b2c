#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

// What is counted happens in here.
extern "C" void measured(const std::function<void()>& work);

namespace fermata::scaling {

struct Case {
  std::string name;
  size_t n;                           // to begin with
  std::function<void(size_t n)> run;  // calls measured() once
  int power = 1;                      // of n, beside log n, that it may cost
};
using Cases = std::vector<Case>;

void add_scheduler_cases(Cases& cases);  // every entry, with each kind of service
void add_shard_cases(Cases& cases);      // the same of the scheduler on several cores
void add_key_cases(Cases& cases);        // keys and workers that come and go
void add_service_cases(Cases& cases);    // services of services, and clients of streams
void add_request_cases(Cases& cases);  // what the engine does with one before and after its batches
void add_parser_cases(Cases& cases);   // bodies and files
void add_wire_cases(Cases& cases);     // connections: HTTP, WebSockets, the frames of gRPC
void add_operator_cases(Cases& cases);

inline std::string number(size_t i) { return std::to_string(i); }

inline std::string repeated(size_t n, const std::function<std::string(size_t)>& each,
                            const char* between = ",") {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += (i > 0 ? between : "") + each(i);
  return text;
}

}  // namespace fermata::scaling
