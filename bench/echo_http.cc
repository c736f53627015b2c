// A bare restinio server that answers each request with its own body, on one
// thread or as many as asked for: what HTTP alone costs.
//
//   bench_echo_http PORT [THREADS]
#include <cstdlib>
#include <iostream>
#include <restinio/all.hpp>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_echo_http PORT [THREADS]\n";
    return 2;
  }
  const auto port = static_cast<uint16_t>(std::atoi(argv[1]));
  const auto threads = static_cast<size_t>(argc > 2 ? std::atoi(argv[2]) : 1);
  restinio::run(restinio::on_thread_pool(threads)
                    .address("127.0.0.1")
                    .port(port)
                    .socket_options_setter([](auto& socket) {
                      socket.set_option(restinio::asio_ns::ip::tcp::no_delay(true));
                    })
                    .request_handler([](const restinio::request_handle_t& request) {
                      return request->create_response().set_body(request->body()).done();
                    }));
}
