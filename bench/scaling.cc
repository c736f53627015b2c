// What one client can make the server do, at a size: every entry of a scheduler with each kind of
// service, every parser, every connection. bench/scaling.py counts the instructions of it at n, 2n
// and 4n.
//   bench_scaling          prints the cases, each with a size to begin with and the power of it
//   that
//                          it may cost
//   bench_scaling CASE N   does it once
#include <cstdlib>
#include <iostream>

#include "scaling/cases.h"

extern "C" __attribute__((noinline)) void measured(const std::function<void()>& work) { work(); }

int main(int argc, char** argv) {
  using namespace fermata::scaling;
  Cases cases;
  add_scheduler_cases(cases);
  add_shard_cases(cases);
  add_key_cases(cases);
  add_service_cases(cases);
  add_request_cases(cases);
  add_parser_cases(cases);
  add_wire_cases(cases);
  add_operator_cases(cases);
  for (const Case& each : cases) {
    if (argc < 3) {
      std::cout << each.name << " " << each.n << " " << each.power << "\n";
    } else if (each.name == argv[1]) {
      each.run(std::strtoull(argv[2], nullptr, 10));
      return 0;
    }
  }
  return argc < 3 ? 0 : 1;
}
