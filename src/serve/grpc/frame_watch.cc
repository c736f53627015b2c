#include "serve/grpc/frame_watch.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace fermata::serve {
namespace {

constexpr size_t kPreface = 24;
constexpr size_t kFrameHead = 9;
constexpr size_t kSetting = 6, kIncrement = 4;  // bytes
constexpr uint32_t kInitialWindowSize = 4;      // the setting's number

// Of a message, by what stands before it.
uint32_t length_of(const char* prefix) { return word_at(prefix + 1); }

// A piece of a call, or its end.
bool is_of_call(FrameHead frame) { return frame.kind <= FrameKind::kReset; }

// Of a number of frames that are no flood.
bool take_one(uint32_t& left) {
  if (left == 0) return false;
  --left;
  return true;
}

bool says_of_windows(FrameHead frame) {
  return frame.kind == FrameKind::kSettings || frame.kind == FrameKind::kWindowUpdate;
}

bool ends_call(FrameHead frame) {
  return frame.kind == FrameKind::kReset ||
         ((frame.kind == FrameKind::kData || frame.kind == FrameKind::kHeaders) &&
          frame.has(FrameHead::kEndStream));
}

}  // namespace

FrameWatch::FrameWatch(Clock now, std::shared_ptr<AddressAccount> address, uint32_t most_calls)
    : now_(now),
      address_(std::move(address)),
      since_(now()),
      last_(since_),
      active_(since_),
      most_calls_(most_calls),
      from_client_(kPreface),
      to_client_(0) {}

bool FrameWatch::see(std::string_view bytes) {
  last_ = now_();
  const bool is_good = from_client_.read(
      std::array{piece_of(bytes)}, 0, [this](FrameHead frame) { return begin_frame(frame); },
      [this](FrameHead frame, std::string_view piece) {
        if (frame.kind == FrameKind::kData) add_data(frame, piece);
      },
      [this](FrameHead frame) {
        if (!is_of_call(frame)) return;
        if (find(frame.stream) != nullptr) active_ = last_;
        end_frame(frame);
      });
  return is_good && !is_flood_;
}

inline void FrameWatch::end_frame(FrameHead frame) {
  if (frame.kind == FrameKind::kData && frame.size < kCrumb) end_piece(frame);
  if (!ends_call(frame)) return;
  Call* const call = sending(frame.stream);
  if (call == nullptr) return;
  if (frame.kind != FrameKind::kReset) {
    if (!call->whole) {
      wasted(1);
    } else {
      begin_asked(*call);
    }
  }
  end_sending(*call);
  erase_if_over(frame.stream, *call);
}

void FrameWatch::sent(std::span<const iovec> pieces, size_t known) {
  to_client_.read(
      pieces, known,
      [this](FrameHead) {
        said_.have = 0;
        return true;
      },
      [this](FrameHead frame, std::string_view piece) {
        if (says_of_windows(frame)) hear(frame, piece);
      },
      [this](FrameHead frame) {
        if (is_of_call(frame)) end_sent(frame);
        if (frame.kind == FrameKind::kSettings && !frame.has(FrameHead::kAcknowledged)) {
          told_.push_back(window_);
        }
      });
}

inline void FrameWatch::end_sent(FrameHead frame) {
  if (frame.kind == FrameKind::kData && frame.size > 0) {
    active_ = now_();
    replies_ = std::min(replies_ + 1, kFramesASecond);
    updates_ = std::min(updates_ + kUpdates + frame.size / kBytesOfUpdate, kMostUpdates);
  }
  if (!ends_call(frame)) return;
  Call* const call = find(frame.stream);
  const bool is_answered = frame.stream == std::exchange(last_answered_, 0);
  if (call == nullptr) {
    if (is_answered && frame.kind == FrameKind::kReset) give_up_answered();
    return;
  }
  if (call->asked) {
    is_first_answer_ = !std::exchange(served_, true);
    credit_ = std::min(credit_ + 1, kMostCredit);
    last_answered_ = frame.stream;
    end_asked(*call);
  }
  if (call->sends) {
    if (!call->whole) wasted(1);
    late_ = std::min(late_ + kLateCrumbs, kMostLateCrumbs);
    end_sending(*call);
  }
  erase_if_over(frame.stream, *call);
}

// What the server says of windows. Those that a setting narrows again stay as wide as they were:
// the client may not have heard of it.
inline void FrameWatch::hear(FrameHead frame, std::string_view piece) {
  const size_t size = frame.kind == FrameKind::kWindowUpdate ? kIncrement : kSetting;
  while (!piece.empty()) {
    if (said_.have == 0 && piece.size() >= size) {
      hear_one(frame, piece.data());
      piece.remove_prefix(size);
      continue;
    }
    said_.bytes[said_.have++] = piece.front();
    piece.remove_prefix(1);
    if (said_.have < size) continue;
    said_.have = 0;
    hear_one(frame, said_.bytes.data());
  }
}

inline void FrameWatch::hear_one(FrameHead frame, const char* said) {
  if (frame.kind == FrameKind::kWindowUpdate) {
    const uint64_t more = word_at(said);
    Call* const call = sending(frame.stream);
    if (frame.stream == 0) opened_ += more;
    if (call != nullptr) call->opened += more;
  } else if (word_at(said) >> 16 == kInitialWindowSize) {
    window_ = std::max<uint64_t>(window_, word_at(said + 2));
  }
}

// False: it is a flood. Beyond the window of all calls gRPC closes the connection, but not while a
// write is under way.
inline bool FrameWatch::is_within_window(FrameHead frame) {
  received_ += frame.size;
  if (received_ > opened_) return false;
  Call* const call = sending(frame.stream);
  if (call == nullptr) {
    if (frame.size >= kCrumb) return true;
    if (late_ == 0) return count(1);
    --late_;
    return true;
  }
  call->received += frame.size;
  if (call->received > window_ + call->opened) return false;
  // gRPC answers each of these with a reset, which it may never send.
  return call->received <= acknowledged_ + call->opened || ++beyond_ < kFramesASecond;
}

inline bool FrameWatch::begin_frame(FrameHead frame) {
  ++work_;
  switch (frame.kind) {
    case FrameKind::kHeaders:
      return add_to_head(frame) && begin_call(frame.stream);
    case FrameKind::kContinuation:
      return add_to_head(frame);
    case FrameKind::kData:
      if (frame.size > 0) return is_within_window(frame);
      return frame.has(FrameHead::kEndStream) || count(1);
    case FrameKind::kWindowUpdate:
      return take_one(updates_) || count(1);
    case FrameKind::kPing:
      return take_one(replies_) || count(1);
    case FrameKind::kReset:
      active_ = find(frame.stream) != nullptr ? last_ : active_;
      return reset(frame.stream);
    case FrameKind::kSettings:
      if (frame.has(FrameHead::kAcknowledged)) settle();
      return count(1);
    default:
      return count(1);
  }
}

inline bool FrameWatch::add_to_head(FrameHead frame) {
  head_ += kFrameHead + frame.size;
  if (head_ > kHeadBytes) return false;
  if (frame.has(FrameHead::kEndHeaders)) head_ = 0;
  return true;
}

void FrameWatch::settle() {
  settled_ = settled_ || has_told_;
  if (told_.empty()) return;
  acknowledged_ = std::max(acknowledged_, told_.front());
  told_.pop_front();
}

// Who gives up a call that it has sent, as at its deadline, costs its address nothing, as long as
// it has as many answers; who does so at once does it for nothing else.
bool FrameWatch::reset(uint32_t stream) {
  Call* const call = find(stream);
  if (call == nullptr || !call->asked) {
    return count(call != nullptr && !call->whole ? kWastedCall : 1);
  }
  const bool is_soon = last_ - call->since < kSoon;
  end_asked(*call);
  if (!call->sends) erase_if_over(stream, *call);
  return is_soon ? count(1) : count_given_up();
}

inline bool FrameWatch::begin_call(uint32_t stream) {
  ++begun_;
  work_ += kCallWork;
  updates_ = std::min(updates_ + kUpdates, kMostUpdates);
  Call* call = find(stream);
  if (call == nullptr) {
    if (newest_stream_ != 0) make_older();
    newest_stream_ = stream;
    newest_.sends = newest_.asked = false;
    call = &newest_;
  }
  if (!call->sends) {
    *call = {.sends = true, .asked = call->asked, .since = call->since};
    ++sending_;
    unfinished_ += kCallHolds;
    ++silent_;
    if (address_ != nullptr) address_->add_calls(1);
  }
  if (silent_ > most_calls_ || (settled_ && open() > most_calls_)) return false;
  if (address_ != nullptr && address_->is_crowded([this] { return last_; }) && is_beyond_few()) {
    crowded_ = true;
    return false;
  }
  return settled_ || ++unsettled_ <= kCallsUnsettled;
}

inline void FrameWatch::speaks(Call& call) {
  if (std::exchange(call.silent, false)) --silent_;
}

FrameWatch::Call* FrameWatch::find_older(uint32_t stream) {
  const auto found = calls_.find(stream);
  return found == calls_.end() ? nullptr : &found->second;
}

void FrameWatch::erase_older(uint32_t stream) { calls_.erase(stream); }
void FrameWatch::make_older() { calls_.emplace(newest_stream_, newest_); }

inline void FrameWatch::begin_asked(Call& call) {
  call.since = last_;
  if (std::exchange(call.asked, true)) return;
  ++asked_;
  if (address_ != nullptr) address_->add_asked(1);
}

inline void FrameWatch::end_asked(Call& call) {
  call.asked = false;
  --asked_;
  if (address_ != nullptr) address_->add_asked(-1);
}

inline void FrameWatch::end_sending(Call& call) {
  speaks(call);
  unfinished_ -= call.holds;
  call.sends = false;
  --sending_;
  if (address_ != nullptr) address_->add_calls(-1);
}

inline void FrameWatch::erase_if_over(uint32_t stream, Call& call) {
  if (call.sends || call.asked) return;
  if (&call == &newest_) {
    newest_stream_ = 0;
  } else {
    erase_older(stream);
  }
}

void FrameWatch::forget_calls(bool by_us) {
  if (address_ != nullptr) {
    address_->add_calls(-static_cast<int64_t>(sending_));
    address_->add_asked(-static_cast<int64_t>(asked_));
  }
  const auto is_unfinished = [](const Call& call) { return call.sends && !call.whole; };
  auto unfinished = std::count_if(calls_.begin(), calls_.end(),
                                  [&](const auto& call) { return is_unfinished(call.second); });
  if (newest_stream_ != 0 && is_unfinished(newest_)) ++unfinished;
  const uint64_t unpaid = asked_ - std::min<uint64_t>(asked_, credit_);
  const uint64_t all = static_cast<uint64_t>(unfinished) + unpaid;
  if (!by_us) wasted(crowded_ ? std::min(all, kMostCrowdedOut) : all);
  silent_ = 0;
  unfinished_ = 0;
  sending_ = asked_ = 0;
  newest_stream_ = 0;
  calls_.clear();
}

inline void FrameWatch::add_data(FrameHead frame, std::string_view piece) {
  Call* const found = sending(frame.stream);
  if (found == nullptr) return;
  Call& call = *found;
  speaks(call);
  constexpr size_t kPrefix = std::tuple_size_v<decltype(call.prefix)>;
  if (call.have == 0 && piece.size() >= kPrefix &&
      length_of(piece.data()) == piece.size() - kPrefix) {
    return take_message(call);  // as most are
  }
  call.holds += kPieceHolds;
  unfinished_ += kPieceHolds;
  while (!piece.empty()) {
    size_t taken = 0;
    if (call.have < kPrefix) {
      taken = 1;
      call.prefix[call.have++] = piece.front();
      if (call.have == kPrefix) call.left = length_of(call.prefix.data());
    } else {
      taken = std::min<size_t>(call.left, piece.size());
      call.left -= static_cast<uint32_t>(taken);
    }
    piece.remove_prefix(taken);
    call.holds += taken;
    unfinished_ += taken;
    if (call.have == kPrefix && call.left == 0) take_message(call);
  }
}

// A frame of data has ended. One byte in a frame of its own costs gRPC as much as 16 KiB do.
void FrameWatch::end_piece(FrameHead frame) {
  Call* const call = sending(frame.stream);
  if (call == nullptr || call->have == 0) return;
  if (call->crumbs < kFewCrumbs) {
    ++call->crumbs;
  } else if (!count(1)) {
    is_flood_ = true;
  }
}

// It is whole: gRPC hands it on, and who has it counts it.
inline void FrameWatch::take_message(Call& call) {
  call.have = call.crumbs = 0;
  if (call.whole) work_ += kCallWork;
  call.whole = proven_ = true;
  unfinished_ -= std::exchange(call.holds, 0);
}

void FrameWatch::wasted(uint64_t calls) {
  if (address_ != nullptr && calls > 0) address_->waste(calls * kWastedCall, now_());
}

// The call that was answered last was not: its deadline has passed, at which gRPC resets it too.
void FrameWatch::give_up_answered() {
  if (is_first_answer_) served_ = false;
  credit_ -= std::min(credit_, 1U);
  if (credit_ > 0) {
    --credit_;
    return;
  }
  last_ = now_();
  if (!count_given_up()) is_flood_ = true;
}

bool FrameWatch::count(uint32_t weight) {
  return count(weight, address_ != nullptr && !address_->take_frame(weight, last_));
}

bool FrameWatch::count_given_up() {
  if (credit_ > 0) {
    --credit_;
    return count(1, false);
  }
  return count(1, address_ != nullptr && !address_->take_given_up(last_));
}

bool FrameWatch::count(uint32_t weight, bool is_crowded) {
  if (last_ - since_ >= std::chrono::seconds(1)) {
    since_ = last_;
    counted_ = 0;
  }
  counted_ += weight;
  if (counted_ >= kFramesASecond) return false;
  if (!is_crowded || counted_ < kFewFrames) return true;
  crowded_ = crowded_ || served_;
  return false;
}

}  // namespace fermata::serve
