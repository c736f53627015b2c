#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/byte_budget.h"
#include "serve/http/http_parser.h"
#include "serve/http/http_server.h"
#include "serve/http/upgraded.h"
#include "serve/http/web_socket.h"
#include "serve/net/address_counts.h"
#include "serve/net/pace.h"
#include "serve/net/who_gives_way.h"

namespace fermata::serve {

class EventListener;
class HttpConnection;

// The connections of one io thread; only that thread touches them.
struct HttpShard {
  // For what a connection holds to come or to go, where memory is short.
  static constexpr std::chrono::seconds kSlow{10};
  const HttpOptions& options;
  HttpHandler& handler;
  const std::atomic<bool>& draining;
  boost::asio::io_context io{1};
  std::list<std::shared_ptr<HttpConnection>> open;  // the one longest unused first
  std::atomic<size_t> count = 0;
  std::chrono::steady_clock::time_point searched;  // when none was slow
  Entrance entrance;
  // From when on half a request is not waited for.
  std::chrono::steady_clock::time_point wait_for_rest_until =
      std::chrono::steady_clock::time_point::max();
  HttpShard* next = this;  // all shards of a server, round and round
  std::shared_ptr<AddressCounts> addresses = std::make_shared<AddressCounts>();  // of all shards

  // Whether there is a place for one that has just come, or one is made by evict(). The last
  // sixteenth of all places is left to addresses that have at most a sixteenth.
  bool has_room_for(const HttpConnection& newcomer);
  // Closes the one that gives way. False: there is none. `newcomer` is null where a descriptor is
  // wanted. `any_place`: it may have the last ones too. O(open).
  bool evict(const HttpConnection* newcomer,
             std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now(),
             bool any_place = true);
  // Closes those whose client takes too long.
  void sweep();
  // Gives up the slowest body or reply, of those that would take longer than that to come or to go
  // with what they hold. False: there is none.
  bool end_slowest(std::chrono::duration<double> than = {});
  // The same in the other shards, one after the other until one has one; then, on this shard's
  // thread, the connection goes on, if it still lives. False: there is no other.
  bool end_slowest_elsewhere(std::weak_ptr<HttpConnection> waiting);
  // Ends those without a request for a second; the others end with their next reply, or when they
  // have been without one for as long, those of half a request when the grace is over.
  void drain();
  void end();  // closes all

 private:
  std::shared_ptr<HttpConnection> find_slowest(std::chrono::duration<double> than);
};

// One request and where its reply goes; what an HttpExchange holds.
struct HttpRequestState {
  HttpMessage message;
  std::shared_ptr<HttpConnection> connection;
  uint64_t number = 0;  // of the connection's requests
  bool keep_alive = true, is_head = false;
  HeldBytes held;  // its body

  HttpMethod method() const;
};

// HTTP/1.1 on one socket. At most two requests are under way; replies go out in the order of their
// requests. All runs on the shard's thread but respond(). After upgrade() or stream_events() it is
// what that says.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Moment = std::chrono::steady_clock::time_point;

  HttpConnection(Socket socket, HttpShard& shard);
  void start();
  void close();
  // There is no place for it: 503, in place of start().
  void turn_away();
  bool idle() const;  // no request is under way
  bool overdue(Moment now) const;
  // How much it is in the way of others; slow: slowness(). One that is open.
  WhoGivesWay::Connection in_the_way(Moment now) const;
  const std::optional<AddressCounts::Place>& place() const { return address_; }  // until close()
  // How many seconds what it holds would take to come or to go, as it came or went lately; 0: it
  // is not slow.
  double slowness(Moment now) const;
  Moment heard() const { return heard_; }  // of the body
  // Answers 408 where half a request has come, 503 while the server stops, else closes.
  void give_up();
  void give_way();          // the same, of one whose memory is wanted
  void finish_when_idle();  // the server stops
  void upgrade(HttpRequestState& request, std::shared_ptr<WebSocketHandler> handler);
  void stream_events(HttpRequestState& request, std::shared_ptr<EventListener> listener);
  // The client did something: it is the last one to be closed where connections are short.
  void touch(Moment now = std::chrono::steady_clock::now());

  const Client& client() const { return client_; }
  const std::shared_ptr<ByteBudget>& budget() const { return budget_; }
  // Its body found no memory; one that stalled in another shard was `ended` for it, or none.
  void go_on(bool ended);
  // From any thread.
  void respond(const HttpRequestState& request, HttpResponse response);

 private:
  static constexpr size_t kBodyReadSize = 64 * 1024;  // read at a time, at most
  // A request's place in the order of replies.
  struct Slot {
    bool ready = false, last = false;  // last: the connection ends after it
    std::string head;                  // but for its end
    HttpResponse response;
    HeldBytes held;
  };

  bool may_upgrade(HttpRequestState& request);  // else it is answered
  void become(HttpRequestState& request, std::unique_ptr<Upgraded> what);
  void proceed();
  void read();
  void on_read(size_t bytes, const boost::system::error_code& failed);
  bool begin_body();
  bool hold_body();
  void ask_for_body();
  void dispatch();
  void refuse(uint16_t status, std::string_view says);
  void complete(uint64_t number, Slot slot);
  void write();
  void on_written(bool failed);
  void end();
  void watch_a_client_that_sends_no_more();
  bool waits_for_last_reply() const;
  bool takes_long_to_read(Moment now) const;  // its client, the reply
  InTheWay way_it_is(Moment now, double slowness) const;
  Slot make_slot(HttpResponse response, bool last, bool without_body) const;

  Socket socket_;
  HttpShard& shard_;
  const Client client_;
  std::optional<AddressCounts::Place> address_;
  const std::shared_ptr<ByteBudget> budget_;
  std::list<std::shared_ptr<HttpConnection>>::iterator place_;
  boost::beast::flat_buffer buffer_;
  HttpParser parser_;
  std::unique_ptr<Upgraded> web_;  // after upgrade() or stream_events()
  HttpMessage upgrade_;            // the request for it, until what goes before it is written
  HeldBytes incoming_;             // the body that is being read
  uint64_t incoming_bytes_ = 0;    // of it
  uint64_t writing_bytes_ = 0;     // while writing_
  Pace incoming_pace_, outgoing_pace_;
  std::deque<Slot> slots_;
  std::deque<Slot> written_;  // while writing_, what is being written
  uint64_t first_ = 0;        // number of slots_.front()
  const Moment opened_;
  Moment since_;  // of the phase that overdue() looks at
  Moment heard_;  // when bytes came last
  bool reading_ = false, writing_ = false, proceeding_ = false, closed_ = false;
  bool served_ = false;
  bool sent_all_ = false;   // the client sends no more
  bool deaf_ = false;       // no more requests are taken
  bool closing_ = false;    // our last byte is written, the client's end is awaited
  bool continue_ = false;   // the client waits for 100 (Continue)
  bool waiting_ = false;    // for memory, until go_on()
  bool waited_ = false;     // since there was enough, and no other body was left to end
  bool speaks_1_1_ = true;  // as of its last request
};

}  // namespace fermata::serve
