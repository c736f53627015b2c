#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "load/http_connection.h"
#include "load/transport.h"

namespace fermata::load {

// HTTP/1.1 over a pool of kept-alive connections that grows by one whenever
// none is idle. One thread answers; send() hands it the request.
class HttpTransport : public Transport, public HttpConnection::Owner {
 public:
  // address: HOST:PORT, resolved at once.
  static absl::StatusOr<std::unique_ptr<Transport>> make(const std::string& address,
                                                         Listener& listener);
  ~HttpTransport() override;

  absl::StatusOr<std::vector<InputInfo>> inputs_of(const std::string& service,
                                                   const std::string& version) override;
  uint32_t prepare(const Question& question) override;
  void send(uint32_t question, const Sending& sending) override;
  void abandon() override;
  size_t connections() const override { return most_connections_; }

 private:
  struct Prepared {
    std::string request;
    bool want_outputs, explain;
  };
  struct Asked {
    Sending sending;
    uint32_t question = 0;
  };
  struct Slot {
    std::shared_ptr<HttpConnection> connection;
    std::optional<Asked> asked;  // none: idle
  };

  HttpTransport(std::string address, Endpoints endpoints, Listener& listener);
  void start(const Asked& asked);
  void close_all();
  void answered(HttpConnection& connection, HttpResponse response) override;
  void closed(HttpConnection& connection, absl::Status why) override;

  const std::string address_;
  const Endpoints endpoints_;
  Listener& listener_;
  std::deque<Prepared> prepared_;
  asio::io_context io_{1};
  // Below: of the io thread only.
  absl::flat_hash_map<HttpConnection*, Slot> slots_;
  std::vector<HttpConnection*> idle_;  // the last one used is used first
  bool abandoned_ = false;
  std::atomic<size_t> most_connections_ = 0;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

}  // namespace fermata::load
