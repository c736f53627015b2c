#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace fermata::serve {

struct HttpReceived {
  int status = 0;                              // 0: the server closed the connection
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A blocking HTTP/1.1 connection to this machine, as plain as can be, so that
// tests can send what no decent client would.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port);
  HttpClient();  // has a socket; connect() comes later
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void connect(uint16_t port);
  bool connect_v6(
      uint16_t port);  // to ::1, with another socket; false where there is no such address
  void send(std::string_view bytes);
  void half_close();            // sends no more, but listens
  HttpReceived receive();       // the next reply but 100 (Continue)
  HttpReceived receive_head();  // the next of any kind, without its body
  void close();

  HttpReceived get(std::string_view path, std::string_view headers = {});
  // `headers`: whole lines, each with its end.
  HttpReceived post(std::string_view path, std::string_view body, std::string_view headers = {});

 private:
  bool read_more();
  int socket_;
  std::string buffer_;
};

std::string post_text(std::string_view path, std::string_view body, std::string_view headers = {});

}  // namespace fermata::serve
