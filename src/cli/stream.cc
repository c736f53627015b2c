#include "client/stream.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/document.h"
#include "base/histogram.h"
#include "base/status.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/local_model.h"
#include "cli/progress.h"
#include "client/source.h"
#include "serve/json/json_reply.h"
#include "serve/json/json_text.h"

namespace fermata::cli {
namespace {

constexpr const char* kStreamExamples = R"(Examples:
  fermata stream zoo/data/shapes --service shapes --slo 200 --rate 5
  fermata stream zoo/data/shapes --service shapes --url localhost:8001 --loop | jq .outputs.boxes.data
  fermata stream /dev/video0 --service shapes --rate 15 --local zoo/repository/shapes-96/1/model.onnx
  fermata stream rtsp://camera/live --service shapes --slo 150 --duration 60 --outputs boxes,scores

A frame that would have to wait is dropped before it is sent, so the delay never grows. Standard
output has a JSON object a line for every frame, and one with the summary at the end. Ctrl-C ends it
with the summary too.

Exit codes: 0 done, 1 no server answers or the source broke off, 2 the arguments or the source
are wrong.)";

constexpr double kDefaultRate = 15;
constexpr Duration kPatience = Duration::seconds(10);  // with a service's first word
constexpr Duration kLastAnswers = Duration::seconds(2);

struct StreamArguments {
  std::string source, local;
  client::StreamOptions client;
  double slo_ms = 100, duration_s = 0;
  std::optional<double> rate;
  uint32_t local_side = 0;
  bool loop = false;
};

std::atomic<bool> interrupted{false};

// What became of the frames, on standard output and in sums. Thread-safe.
class Ledger {
 public:
  Ledger(Duration slo, Time start) : slo_(slo), start_(start) {}

  void ended(const client::Answer& answer) {
    const bool ok = answer.status.ok();
    const std::scoped_lock lock(mutex_);
    ++(!ok ? failed_ : answer.latency <= slo_ ? on_time_ : late_);
    if (ok) latencies_.record(answer.latency);
    std::string line = begin(answer.tag);
    fmt::format_to(std::back_inserter(line), ",\"input_size\":{},\"latency_ms\":{:.3f}",
                   answer.input_size, answer.latency.millis());
    if (answer.mbps) {
      fmt::format_to(std::back_inserter(line), ",\"bandwidth_mbps\":{:.3f}", *answer.mbps);
    }
    if (!ok) {
      line += ",\"error\":";
      serve::append_json(message(answer.status), line);
    }
    write(std::move(line), answer.outputs);
  }
  void local(uint64_t frame, uint32_t side, Duration latency, const std::vector<Tensor>& outputs) {
    const std::scoped_lock lock(mutex_);
    ++local_;
    std::string line = begin(frame);
    fmt::format_to(std::back_inserter(line),
                   ",\"local\":true,\"input_size\":{},\"latency_ms\":{:.3f}", side,
                   latency.millis());
    write(std::move(line), outputs);
  }
  void dropped(uint64_t frame, bool unmapped) {
    const std::scoped_lock lock(mutex_);
    ++(unmapped ? unmapped_ : dropped_);
    write(begin(frame) + (unmapped ? ",\"unmapped\":true" : ",\"dropped\":true"), {});
  }
  // Also in words, for people.
  void summarise(uint64_t frames, const client::Stream::Statistics& link) {
    const std::scoped_lock lock(mutex_);
    const auto at = [&](double share) { return latencies_.quantile(share).millis(); };
    const uint64_t answered = on_time_ + late_;
    Json summary = {{"frames", frames},
                    {"on_time", on_time_},
                    {"late", late_},
                    {"failed", failed_},
                    {"dropped", dropped_},
                    {"unmapped", unmapped_},
                    {"local", local_},
                    {"seconds", (monotonic_now() - start_).seconds()},
                    {"connections", link.connections}};
    const auto among = [](uint64_t count, double value) {
      return count > 0 ? Json(value) : Json(nullptr);
    };
    summary["latency_ms"] = {{"p50", among(answered, at(0.5))},
                             {"p99", among(answered, at(0.99))},
                             {"max", among(answered, latencies_.max().millis())}};
    const auto sent = static_cast<double>(link.sent);
    summary["encoding_ms"] = among(link.sent, link.encoding.millis() / sent);
    summary["client_ms"] = among(link.sent, link.other.millis() / sent);
    summary["bandwidth_mbps"] = link.mbps ? Json(*link.mbps) : Json(nullptr);
    summary["round_trip_ms"] = link.round_trip.millis();
    std::cout << Json{{"summary", summary}}.dump() << std::endl;
    std::cerr << fmt::format(
        "{} frames: {} on time, {} late, {} failed, {} dropped before they were sent, {} unmapped"
        "{}\n",
        frames, on_time_, late_, failed_, dropped_, unmapped_,
        local_ > 0 ? fmt::format(", {} answered by the local model", local_) : "");
  }
  std::string note() {
    const std::scoped_lock lock(mutex_);
    return fmt::format("{} on time, {} late, {} dropped", on_time_, late_, dropped_ + unmapped_);
  }

 private:
  std::string begin(uint64_t frame) const {
    return fmt::format("{{\"frame\":{},\"at_ms\":{:.3f}", frame,
                       (monotonic_now() - start_).millis());
  }
  static void write(std::string line, const std::vector<Tensor>& outputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      line += i == 0 ? ",\"outputs\":{" : ",";
      serve::append_json(std::string_view(outputs[i].name), line);
      fmt::format_to(std::back_inserter(line),
                     ":{{\"shape\":{},\"data\":", to_string(outputs[i].shape));
      const size_t before = line.size();
      if (!serve::append_json_data(outputs[i], line).ok()) line.replace(before, line.npos, "null");
      line += '}';
    }
    line += outputs.empty() ? "}\n" : "}}\n";
    std::cout << line << std::flush;
  }

  const Duration slo_;
  const Time start_;
  std::mutex mutex_;
  uint64_t on_time_ = 0, late_ = 0, failed_ = 0, dropped_ = 0, unmapped_ = 0, local_ = 0;
  Histogram latencies_;
};

absl::Status run_local(LocalModel& model, const cv::Mat& picture, uint64_t frame, Ledger& ledger) {
  const Time start = monotonic_now();
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, model.run(picture));
  ledger.local(frame, model.side(), monotonic_now() - start, outputs);
  return absl::OkStatus();
}

void sleep_until(Time due) {
  std::this_thread::sleep_for(std::chrono::nanoseconds((due - monotonic_now()).nanos()));
}

// Sends pictures until there are no more.
class Sender {
 public:
  Sender(const StreamArguments& arguments, client::Source& source, client::Stream& stream,
         std::optional<LocalModel>& local, Ledger& ledger)
      : end_(arguments.duration_s > 0 ? Duration::from_seconds(arguments.duration_s)
                                      : Duration::infinite()),
        source_(source),
        stream_(stream),
        local_(local),
        ledger_(ledger) {}

  absl::Status run() {
    Progress progress("stream");
    const Time start = monotonic_now();
    while (!interrupted) {
      sleep_until(stream_.due());
      const Duration at = monotonic_now() - start;
      if (at >= end_) break;
      ASSIGN_OR_RETURN(const std::optional<cv::Mat> picture, source_.next(at));
      if (!picture) break;
      RETURN_IF_ERROR(send(*picture));
      progress.update(share(at), ledger_.note());
    }
    return absl::OkStatus();
  }
  uint64_t frames() const { return frames_; }

 private:
  double share(Duration at) const {
    if (!end_.is_infinite()) return at.seconds() / end_.seconds();
    const auto count = source_.count();
    return count ? static_cast<double>(frames_) / static_cast<double>(*count) : 0;
  }
  absl::Status send(const cv::Mat& picture) {
    const uint64_t frame = frames_++;
    ASSIGN_OR_RETURN(const client::Sent sent, stream_.send(picture, frame));
    if (sent == client::Sent::kSent) return absl::OkStatus();
    const bool unmapped = sent == client::Sent::kUnmapped;
    if (unmapped && local_) return run_local(*local_, picture, frame, ledger_);
    ledger_.dropped(frame, unmapped);
    return absl::OkStatus();
  }

  const Duration end_;
  client::Source& source_;
  client::Stream& stream_;
  std::optional<LocalModel>& local_;
  Ledger& ledger_;
  uint64_t frames_ = 0;
};

absl::Status stream_frames(StreamArguments& arguments) {
  ASSIGN_OR_RETURN(const auto source, client::open_source(arguments.source, arguments.loop));
  std::optional<LocalModel> local;
  if (!arguments.local.empty()) {
    ASSIGN_OR_RETURN(local, LocalModel::load(arguments.local, arguments.local_side));
  }
  client::StreamOptions& options = arguments.client;
  options.slo = Duration::from_millis(arguments.slo_ms);
  options.rate_rps = arguments.rate.value_or(source->rate_rps().value_or(kDefaultRate));
  Ledger ledger(options.slo, monotonic_now());
  auto opened = client::Stream::open(options, [&](client::Answer answer) { ledger.ended(answer); });
  if (opened.status().code() == absl::StatusCode::kUnavailable) {
    return error(absl::StatusCode::kUnavailable,
                 "{}: {}; start a server with `fermata serve`, or say where one is with --url "
                 "HOST:PORT",
                 options.address, message(opened.status()));
  }
  ASSIGN_OR_RETURN(auto stream, std::move(opened));
  RETURN_IF_ERROR(stream->wait_until_told(kPatience));
  Sender sender(arguments, *source, *stream, local, ledger);
  const absl::Status done = sender.run();
  stream->wait_for_answers(std::max(kLastAnswers, options.slo * 2));
  const client::Stream::Statistics link = stream->statistics();
  stream.reset();  // what is still under way ends here
  ledger.summarise(sender.frames(), link);
  return done;
}

int run_stream(StreamArguments& arguments) {
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::signal(SIGTERM, [](int) { interrupted = true; });
  const absl::Status done = stream_frames(arguments);
  if (done.ok()) return kDone;
  std::cerr << "fermata stream: " << message(done) << "\n";
  return done.code() == absl::StatusCode::kUnavailable ? kFailed : kBadInput;
}

}  // namespace

void add_stream(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<StreamArguments>();
  client::StreamOptions& options = arguments->client;
  CLI::App* command = app.add_subcommand(
      "stream", "Send frames to a stream service as the network and the server sustain them.");
  command->footer(kStreamExamples);
  command
      ->add_option("SOURCE", arguments->source,
                   "A folder of images, an image, a video file, a camera (/dev/video0), or an "
                   "address (rtsp://...)")
      ->required();
  command->add_option("--service", options.service, "The stream service")->required();
  command
      ->add_option("--slo", arguments->slo_ms,
                   "Milliseconds from a frame to its answer, the network included")
      ->check(CLI::Range(1.0, 3600e3))
      ->capture_default_str();
  command->add_option("--rate", arguments->rate, "Frames a second (the source's, else 15)")
      ->check(CLI::Range(0.001, 1000.0));
  command->add_option("--url", options.address, "HOST:PORT of the server's gRPC")
      ->capture_default_str();
  command->add_option("--client", options.client, "This client's name for the service (generated)");
  command
      ->add_option("--min-accuracy", options.min_accuracy,
                   "Accuracy below which an answer is worth nothing")
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--outputs", options.outputs, "Outputs to ask for, separated by commas (all)")
      ->delimiter(',');
  command->add_option("--quality", options.encoder.quality, "JPEG quality")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command->add_option("--local", arguments->local,
                      "An ONNX model that answers while no DNN of the service can answer on time");
  command
      ->add_option("--local-size", arguments->local_side,
                   "Side of the images that it takes (the file's)")
      ->check(CLI::Range(1, 16384));
  command->add_option("--duration", arguments->duration_s, "Seconds to stream (to the end)")
      ->check(CLI::Range(0.0, 1e6));
  command->add_flag("--loop", arguments->loop, "Start again at the end of a folder or a file");
  command->callback([arguments, &exit_code] { exit_code = run_stream(*arguments); });
}

}  // namespace fermata::cli
