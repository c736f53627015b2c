// Our HTTP front end without anything behind it: answers each request with its own body, on one
// thread or as many as asked for. What HTTP alone costs.
//
//   bench_echo_http PORT [THREADS]
#include <cstdlib>
#include <iostream>
#include <thread>

#include "base/status.h"
#include "serve/http/http_server.h"

namespace {

using namespace fermata::serve;

class Echo : public HttpHandler {
 public:
  void request(HttpExchange exchange) override {
    HttpResponse response;
    response.body = exchange.body();
    exchange.respond(std::move(response));
  }
  void opened(uint64_t) override {}
  void closed(uint64_t) override {}
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_echo_http PORT [THREADS]\n";
    return 2;
  }
  HttpOptions options;
  options.address = "127.0.0.1";
  options.port = static_cast<uint16_t>(std::atoi(argv[1]));
  options.threads = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 1);
  Echo echo;
  const auto server = HttpServer::start(options, echo);
  if (!server.ok()) {
    std::cerr << fermata::message(server.status()) << "\n";
    return 1;
  }
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}
