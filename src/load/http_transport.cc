#include "load/http_transport.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <utility>

#include "base/status.h"
#include "load/http_codec.h"

namespace fermata::load {
namespace {

// One request on a connection of its own. Blocks for five seconds at most.
class Fetch : public HttpConnection::Owner {
 public:
  absl::StatusOr<HttpResponse> operator()(const Endpoints& endpoints, std::string_view request) {
    asio::io_context io;
    auto connection = std::make_shared<HttpConnection>(io, endpoints, *this);
    connection->ask(request);
    io.run_for(kMetadataTimeout);
    connection->close();
    return std::move(result_);
  }

 private:
  void answered(HttpConnection& connection, HttpResponse response) override {
    result_ = std::move(response);
    connection.close();
  }
  void closed(HttpConnection&, absl::Status why) override { result_ = std::move(why); }

  absl::StatusOr<HttpResponse> result_ =
      error(absl::StatusCode::kUnavailable, "no answer within five seconds");
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> HttpTransport::make(const std::string& address,
                                                               Listener& listener) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return invalid("address {}: expected HOST:PORT", address);
  asio::io_context io;
  Failure problem;
  const Endpoints endpoints = asio::ip::tcp::resolver(io).resolve(
      address.substr(0, colon), address.substr(colon + 1), problem);
  if (problem) return invalid("address {}: {}", address, problem.message());
  return std::unique_ptr<Transport>(new HttpTransport(address, endpoints, listener));
}

HttpTransport::HttpTransport(std::string address, Endpoints endpoints, Listener& listener)
    : address_(std::move(address)),
      endpoints_(std::move(endpoints)),
      listener_(listener),
      work_(asio::make_work_guard(io_)),
      thread_([this] { io_.run(); }) {}

HttpTransport::~HttpTransport() {
  abandon();
  work_.reset();
  thread_.join();
}

absl::StatusOr<std::vector<InputInfo>> HttpTransport::inputs_of(const std::string& service,
                                                                const std::string& version) {
  const std::string request = encode_metadata(address_, service, version);
  ASSIGN_OR_RETURN(const HttpResponse response, Fetch()(endpoints_, request));
  return decode_metadata(response);
}

uint32_t HttpTransport::prepare(const Question& question) {
  prepared_.push_back({encode_infer(address_, question), question.want_outputs, question.explain});
  return static_cast<uint32_t>(prepared_.size() - 1);
}

void HttpTransport::send(uint32_t question, const Sending& sending) {
  asio::post(io_, [this, asked = Asked{sending, question}] { start(asked); });
}

void HttpTransport::abandon() {
  asio::post(io_, [this] { close_all(); });
}

void HttpTransport::start(const Asked& asked) {
  if (abandoned_) return listener_.ended(asked.sending, {.status = absl::CancelledError()});
  if (idle_.empty()) {
    auto connection = std::make_shared<HttpConnection>(io_, endpoints_, *this);
    idle_.push_back(connection.get());
    slots_[connection.get()].connection = connection;
    if (slots_.size() > most_connections_) most_connections_ = slots_.size();
  }
  HttpConnection* connection = idle_.back();
  idle_.pop_back();
  slots_[connection].asked = asked;
  connection->ask(prepared_[asked.question].request);
}

void HttpTransport::close_all() {
  abandoned_ = true;
  idle_.clear();
  for (auto& [connection, slot] : std::exchange(slots_, {})) {
    connection->close();
    if (slot.asked) listener_.ended(slot.asked->sending, {.status = absl::CancelledError()});
  }
}

void HttpTransport::answered(HttpConnection& connection, HttpResponse response) {
  Slot& slot = slots_.at(&connection);
  const Asked asked = *std::exchange(slot.asked, std::nullopt);
  if (response.keep_alive) {
    idle_.push_back(&connection);
  } else {
    connection.close();
    slots_.erase(&connection);
  }
  const Prepared& prepared = prepared_[asked.question];
  listener_.ended(asked.sending, decode_infer(response, prepared.want_outputs, prepared.explain));
}

void HttpTransport::closed(HttpConnection& connection, absl::Status why) {
  const auto slot = slots_.find(&connection);
  const std::optional<Asked> asked = slot->second.asked;
  slots_.erase(slot);
  idle_.erase(std::remove(idle_.begin(), idle_.end(), &connection), idle_.end());
  if (asked) listener_.ended(asked->sending, {.status = std::move(why)});
}

}  // namespace fermata::load
