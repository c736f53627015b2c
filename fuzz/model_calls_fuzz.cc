// The stream on which a model process calls other models: whatever it sends, what is asked for lies
// in what was sent, each call is answered once, and the stream ends when the process ends it.
//   byte 0   odd: the rest is the stream; else the rest is frames of 16-bit lengths of JSON and
//   data
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"
#include "engine/apart/calls.h"

namespace {

using namespace fermata;
using engine::apart::CallText;

constexpr size_t kHead = 2 * sizeof(uint64_t);

std::string stream_of(const uint8_t* data, size_t size) {
  if (size == 0 || data[0] % 2 == 1) {
    return {reinterpret_cast<const char*>(data) + std::min<size_t>(size, 1), size - (size > 0)};
  }
  std::string stream;
  for (size_t at = 1; at + 4 <= size;) {
    std::array<uint16_t, 2> lengths{};
    std::memcpy(lengths.data(), data + at, 4);
    at += 4;
    const size_t json = std::min<size_t>(lengths[0], size - at);
    const size_t body = std::min<size_t>(lengths[1], size - at - json);
    const std::array<uint64_t, 2> head = {json, body};
    stream.append(reinterpret_cast<const char*>(head.data()), kHead);
    stream.append(reinterpret_cast<const char*>(data) + at, json + body);
    at += json + body;
  }
  return stream;
}

// Answers with what it gets.
std::shared_ptr<engine::ModelCalls> echoing() {
  auto models = std::make_shared<engine::ModelCalls>();
  models->open({.submit =
                    [](engine::InferRequest request, engine::Reply reply) {
                      for (const Tensor& input : request.inputs) {
                        uint8_t sum = 0;  // reads all of it
                        for (const std::byte byte : input.data.bytes)
                          sum ^= static_cast<uint8_t>(byte);
                        FERMATA_CHECK(input.data.bytes.empty() || input.data.owner != nullptr);
                        (void)sum;
                      }
                      reply({.outputs = std::move(request.inputs), .model = request.service});
                      return JobId(1);
                    },
                .cancel = [](JobId) {}});
  return models;
}

// Each that is there as a whole.
void check_answers(const std::string& text) {
  for (size_t at = 0; at + kHead <= text.size();) {
    std::array<uint64_t, 2> lengths{};
    std::memcpy(lengths.data(), text.data() + at, kHead);
    at += kHead;
    if (lengths[0] + lengths[1] > text.size() - at) return;
    const CallText answer = CallText::parse(text.substr(at, lengths[0]), nullptr, false);
    FERMATA_CHECK(answer.is_object() && answer["id"].is_number_unsigned());
    FERMATA_CHECK(answer.contains("outputs") != answer.contains("error"));
    at += lengths[0] + lengths[1];
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<engine::ModelCalls> models = echoing();
  const std::string stream = stream_of(data, size);
  std::array<int, 2> ends{};
  FERMATA_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  const engine::apart::Calls calls(ends[0], models);
  std::string answers;
  size_t sent = 0;
  for (bool open = true; open;) {
    pollfd own{ends[1], static_cast<short>(sent < stream.size() ? POLLIN | POLLOUT : POLLIN), 0};
    if (sent == stream.size()) shutdown(ends[1], SHUT_WR);
    FERMATA_CHECK(TEMP_FAILURE_RETRY(poll(&own, 1, -1)) == 1);  // the fuzzer has a timer
    std::array<char, 4096> some{};
    const ssize_t came = recv(ends[1], some.data(), some.size(), MSG_DONTWAIT);
    if (came > 0) answers.append(some.data(), static_cast<size_t>(came));
    open = came > 0 || (came < 0 && errno == EAGAIN);
    if (!open || (own.revents & POLLOUT) == 0) continue;
    const ssize_t went =
        send(ends[1], stream.data() + sent, stream.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (went > 0) sent += static_cast<size_t>(went);
    if (went < 0 && errno != EAGAIN) sent = stream.size();  // it was closed
  }
  check_answers(answers);
  close(ends[1]);
  return 0;
}
