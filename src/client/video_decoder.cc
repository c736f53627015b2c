#include "client/video_decoder.h"

#ifdef FERMATA_VIDEO

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavdevice/avdevice.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "operators/pictures.h"

namespace fermata::client {
namespace {

constexpr Duration kPatienceWithAddresses = Duration::seconds(10);
constexpr double kSlowest = 0.01, kFastest = 1000;  // frames a second that are believed

double seconds(int64_t ticks, AVRational base) { return static_cast<double>(ticks) * av_q2d(base); }

}  // namespace

struct VideoDecoder::Parts {
  ~Parts() {
    sws_freeContext(scaler);
    av_packet_free(&packet);
    av_frame_free(&frame);
    avcodec_free_context(&codec);
    avformat_close_input(&format);
  }
  AVFormatContext* format = nullptr;
  AVCodecContext* codec = nullptr;
  AVPacket* packet = nullptr;
  AVFrame* frame = nullptr;
  SwsContext* scaler = nullptr;
  int stream = -1;
  bool flushed = false;
  double first = 0, shown = 0;  // seconds: of the first frame, of the last one
  bool started = false;

  const AVStream& video() const { return *format->streams[stream]; }
};

VideoDecoder::VideoDecoder(std::string name)
    : name_(std::move(name)), parts_(std::make_unique<Parts>()) {}

VideoDecoder::~VideoDecoder() = default;

absl::Status VideoDecoder::failed(const char* what, int code) const {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof text);
  if (code == AVERROR_EXIT) {
    return error(absl::StatusCode::kUnavailable, "{} is silent", name_);
  }
  return invalid("{} {}: {}", name_, what, static_cast<const char*>(text));
}

int VideoDecoder::interrupted(void* self) {
  const auto& decoder = *static_cast<VideoDecoder*>(self);
  return decoder.stopped_ || monotonic_now() > decoder.give_up_ ? 1 : 0;
}

void VideoDecoder::watch() { give_up_ = monotonic_now() + kPatienceWithAddresses; }

absl::StatusOr<std::unique_ptr<VideoDecoder>> VideoDecoder::open(const std::string& name) {
  static const bool once = (avdevice_register_all(), av_log_set_level(AV_LOG_FATAL), true);
  (void)once;
  auto decoder = std::unique_ptr<VideoDecoder>(new VideoDecoder(name));
  RETURN_IF_ERROR(decoder->start());
  return decoder;
}

absl::Status VideoDecoder::start() {
  Parts& p = *parts_;
  p.format = avformat_alloc_context();
  p.packet = av_packet_alloc();
  p.frame = av_frame_alloc();
  p.format->interrupt_callback = {interrupted, this};
  watch();
  const bool camera = name_.starts_with("/dev/video");
  const AVInputFormat* kind = camera ? av_find_input_format("v4l2") : nullptr;
  AVDictionary* options = nullptr;
  av_dict_set(&options, "rtsp_transport", "tcp", 0);
  const int opened = avformat_open_input(&p.format, name_.c_str(), kind, &options);
  av_dict_free(&options);
  if (opened < 0) return failed("cannot be opened", opened);
  if (const int code = avformat_find_stream_info(p.format, nullptr); code < 0) {
    return failed("cannot be read", code);
  }
  const AVCodec* codec = nullptr;
  p.stream = av_find_best_stream(p.format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
  if (p.stream < 0 || codec == nullptr) return failed("holds no video that we know", p.stream);
  p.codec = avcodec_alloc_context3(codec);
  int code = avcodec_parameters_to_context(p.codec, p.video().codecpar);
  p.codec->thread_count = 1;
  if (code >= 0) code = avcodec_open2(p.codec, codec, nullptr);
  return code < 0 ? failed("cannot be decoded", code) : absl::OkStatus();
}

absl::StatusOr<std::optional<VideoDecoder::Frame>> VideoDecoder::next() {
  Parts& p = *parts_;
  watch();
  for (;;) {
    int code = avcodec_receive_frame(p.codec, p.frame);
    if (code >= 0) break;
    if (code == AVERROR_EOF) return std::optional<Frame>();
    if (code != AVERROR(EAGAIN)) return failed("cannot be decoded", code);
    code = av_read_frame(p.format, p.packet);
    if (code < 0 && code != AVERROR_EOF) return failed("cannot be read", code);
    const bool over = code == AVERROR_EOF;
    // A broken packet costs its frame only.
    if (over || p.packet->stream_index == p.stream) {
      (void)avcodec_send_packet(p.codec, over ? nullptr : p.packet);
    }
    av_packet_unref(p.packet);
  }
  const double interval = 1 / rate_rps().value_or(25);
  const int64_t ticks = p.frame->best_effort_timestamp;
  const double at = ticks == AV_NOPTS_VALUE ? p.shown + (p.started ? interval : 0)
                                            : seconds(ticks, p.video().time_base);
  if (!std::exchange(p.started, true)) p.first = at;
  p.shown = at;
  return Frame{Duration::from_seconds(std::max(0.0, at - p.first) + interval)};
}

absl::StatusOr<cv::Mat> VideoDecoder::picture() {
  Parts& p = *parts_;
  const int width = p.frame->width, height = p.frame->height;
  if (int64_t{width} * height > operators::kMostPixels) {
    return invalid("{} has {} x {} pixels, expected at most {} in all", name_, width, height,
                   operators::kMostPixels);
  }
  p.scaler = sws_getCachedContext(p.scaler, width, height,
                                  static_cast<AVPixelFormat>(p.frame->format), width, height,
                                  AV_PIX_FMT_RGB24, SWS_BILINEAR, nullptr, nullptr, nullptr);
  if (p.scaler == nullptr) return invalid("{} has pixels that cannot be read", name_);
  picture_.create(height, width, CV_8UC3);
  uint8_t* const planes[4] = {picture_.data};  // all four are read
  const int strides[4] = {static_cast<int>(picture_.step)};
  sws_scale(p.scaler, p.frame->data, p.frame->linesize, 0, height, planes, strides);
  return picture_;
}

absl::Status VideoDecoder::rewind() {
  Parts& p = *parts_;
  avcodec_flush_buffers(p.codec);
  p.started = false;
  const int code = av_seek_frame(p.format, p.stream, 0, AVSEEK_FLAG_BACKWARD);
  return code < 0 ? failed("cannot be read from its beginning again", code) : absl::OkStatus();
}

std::optional<double> VideoDecoder::rate_rps() const {
  const double rate =
      av_q2d(av_guess_frame_rate(parts_->format, parts_->format->streams[parts_->stream], nullptr));
  if (!(rate >= kSlowest && rate <= kFastest)) return std::nullopt;
  return rate;
}

}  // namespace fermata::client

#endif
