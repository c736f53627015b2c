#include "serve/log.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <deque>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "serve/json/json_text.h"

namespace fermata::serve {
namespace {

// The message as a JSON string; spdlog's own flag for it does not escape.
class QuotedMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string quoted;
    append_json(std::string_view(message.payload.data(), message.payload.size()), quoted);
    out.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedMessage>();
  }
};

constexpr size_t kMostKept = 50, kLongestKept = 4096;

struct Told {
  std::mutex mutex;
  LogListener listener;
  std::deque<LogLine> last;
};
Told& told() {
  static Told& one = *new Told;
  return one;
}

// Writes only as much as standard error takes at once.
class NonBlockingSink : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    if (message.level >= spdlog::level::warn) tell(message);
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (cut_ && !write("\n")) return;
    const bool whole = write({line.data(), line.size()});
    cut_ = !whole && begun_;
  }
  void flush_() override {}

 private:
  static void tell(const spdlog::details::log_msg& message) {
    const std::lock_guard lock(told().mutex);
    const auto level = spdlog::level::to_string_view(message.level);
    const auto& text = message.payload;
    auto& last = told().last;
    if (last.size() == kMostKept) last.pop_front();
    last.push_back({monotonic_now(), std::string(level.data(), level.size()),
                    std::string(text.data(), std::min(text.size(), kLongestKept))});
    if (told().listener) told().listener(last.back());
  }
  bool write(std::string_view bytes) {
    begun_ = false;
    while (!bytes.empty()) {
      // A pipe that is ready takes this many bytes without blocking.
      const size_t piece = std::min<size_t>(bytes.size(), PIPE_BUF);
      pollfd ready{STDERR_FILENO, POLLOUT, 0};
      if (poll(&ready, 1, 0) <= 0) return false;
      const ssize_t written = ::write(STDERR_FILENO, bytes.data(), piece);
      if (written <= 0) return false;
      begun_ = true;
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return true;
  }
  bool begun_ = false;  // of the last write, some bytes are out
  bool cut_ = false;    // the last line has no end
};

}  // namespace

void tell_of_log(LogListener listener) {
  const std::lock_guard lock(told().mutex);
  told().listener = std::move(listener);
  if (!told().listener) return;
  for (const LogLine& line : told().last) told().listener(line);
}

void log_as_json(const std::string& level) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<QuotedMessage>('*').set_pattern(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","message":%*})");
  auto logger = std::make_shared<spdlog::logger>("fermata", std::make_shared<NonBlockingSink>());
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace fermata::serve
