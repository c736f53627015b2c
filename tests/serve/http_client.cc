#include "serve/http_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"

namespace fermata::serve {

HttpClient::HttpClient() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {}

HttpClient::HttpClient(uint16_t port) : HttpClient() { connect(port); }

bool HttpClient::connect_v6(uint16_t port) {
  close();
  socket_ = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_loopback;
  return ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

void HttpClient::half_close() { ::shutdown(socket_, SHUT_WR); }

void HttpClient::connect(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FERMATA_CHECK(::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed; receive() will show it
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool HttpClient::read_more() {
  char chunk[4096];
  const ssize_t got = ::recv(socket_, chunk, sizeof(chunk), 0);
  if (got <= 0) return false;
  buffer_.append(chunk, static_cast<size_t>(got));
  return true;
}

HttpReceived HttpClient::receive_head() {
  HttpReceived result;
  size_t end;
  while ((end = buffer_.find("\r\n\r\n")) == buffer_.npos) {
    if (!read_more()) return result;
  }
  const std::string head = buffer_.substr(0, end + 2);
  buffer_.erase(0, end + 4);
  result.status = std::stoi(head.substr(head.find(' ') + 1));
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    result.headers[name] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  return result;
}

HttpReceived HttpClient::receive() {
  HttpReceived result = receive_head();
  while (result.status == 100) result = receive_head();
  if (result.status == 0) return result;
  const size_t length = std::stoul(result.headers["content-length"]);
  while (buffer_.size() < length && read_more()) {
  }
  result.body = buffer_.substr(0, length);
  buffer_.erase(0, length);
  return result;
}

std::string post_text(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), headers, body);
}

HttpReceived HttpClient::post(std::string_view path, std::string_view body,
                              std::string_view headers) {
  send(post_text(path, body, headers));
  return receive();
}

HttpReceived HttpClient::get(std::string_view path, std::string_view headers) {
  send(fmt::format("GET {} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", path, headers));
  return receive();
}

}  // namespace fermata::serve
