#pragma once

#include <cstddef>
#include <cstdint>

namespace fermata::engine::apart {

// What the server and a model process share: one file in memory, sealed against growing and
// shrinking, that the server makes and both map as a whole. All numbers are little-endian and lie
// at the offsets that are asserted here, so that any language can speak it (docs/processes.md).
//
//   0            Head
//   kSlots       slot 0, 1, ...: SlotHead, at kRequest the request's record, at kReply the reply's
//   Head::data   the data of slot 0, 1, ...: `data_each` bytes each, of which the first
//                `inputs_each` are the batch's inputs and the others its outputs
//
// A slot runs one batch at a time. The server writes the record and the inputs, puts the batch's
// number into SlotHead::asked and wakes who waits there; the process writes outputs and record,
// puts the same number into SlotHead::answered and wakes. Words that are waited on are futexes that
// processes share. Who waits may look at its word for a moment before it sleeps, and says so in
// another word meanwhile: nobody has to wake it then.

inline constexpr uint32_t kMagic = 0x31504d46;  // "FMP1"
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kSlots = 4096;       // offset of the first slot
inline constexpr size_t kSlotSize = 131072;  // of each
inline constexpr size_t kRequest = 4096;     // offset in a slot
inline constexpr size_t kReply = 65536;      // the same
inline constexpr size_t kRequestSize = kReply - kRequest, kReplySize = kSlotSize - kReply;
inline constexpr size_t kAlignment = 64;  // of tensors' data
inline constexpr uint32_t kMostRank = 16;
inline constexpr uint32_t kWhole = 0xFFFFFFFF;  // a tensor of the whole batch
// Where the process finds them; the last only where it may call models.
inline constexpr int kAreaFd = 3, kControlFd = 4, kCallsFd = 5;

struct Head {
  uint32_t magic, version, slots;
  uint32_t look_nanos;  // for which a process may look before it sleeps
  uint64_t size;        // of the file
  uint64_t data, data_each, inputs_each;
  uint64_t reserved2[2];
  // The sign of life, at 64: a pthread_mutex_t (robust, shared between processes) that the server
  // initialises and the main thread of the process locks before it says anything, and holds until
  // its end. The kernel says in its first word that the owner died.
  alignas(64) uint8_t life[64];
};
static_assert(offsetof(Head, slots) == 8 && offsetof(Head, size) == 16 &&
              offsetof(Head, data) == 24 && offsetof(Head, data_each) == 32 &&
              offsetof(Head, inputs_each) == 40 && offsetof(Head, life) == 64);

struct SlotHead {
  uint32_t asked;                 // number of the batch to run; futex
  uint32_t server_looks;          // 1: the server looks at `answered`, and need not be woken
  alignas(64) uint32_t answered;  // number of the batch that has ended; futex
  uint32_t process_looks;         // 1: the process looks at `asked`, and need not be woken
};
static_assert(offsetof(SlotHead, server_looks) == 4 && offsetof(SlotHead, answered) == 64 &&
              offsetof(SlotHead, process_looks) == 68);

struct TensorRecord {
  uint32_t tensor;    // its place among the inputs or outputs that "load" has named
  uint32_t datatype;  // place in BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 BF16
                      // FP32 FP64 BYTES
  uint32_t rank;
  uint32_t part;           // kWhole, or the part of the batch that this is the output of
  uint64_t offset, bytes;  // in the file; BYTES as the protocol has them: uint32 length, bytes
  int64_t dims[kMostRank];
};
static_assert(sizeof(TensorRecord) == 160 && offsetof(TensorRecord, offset) == 16 &&
              offsetof(TensorRecord, dims) == 32);

// One part of a batch: a request, or some items of one.
struct PartRecord {
  uint32_t items;
  uint32_t reserved;
  uint64_t request;             // its number
  int64_t deadline_nanos;       // CLOCK_MONOTONIC; from INT64_MAX / 4 on: none
  uint32_t notes, notes_bytes;  // JSON of its id and parameters, from the record's start; 0: none
};
static_assert(sizeof(PartRecord) == 32 && offsetof(PartRecord, deadline_nanos) == 16);

// Followed by `inputs` TensorRecords, `outputs` uint32 (places of the outputs that are wanted,
// padded to 8 bytes), `parts` PartRecords. The items of part i follow those of part i - 1 in
// every tensor.
struct RequestRecord {
  uint32_t number, variant, items, flags;  // flags: 1: all stages run
  uint32_t inputs, outputs, parts, reserved;
};
static_assert(sizeof(RequestRecord) == 32);

struct StageRecord {
  uint32_t items, widened;
  uint64_t nanos;
};
struct PartReply {  // where a part failed alone
  uint32_t part, code;
  uint32_t text, text_bytes;  // from the record's start
};
// Followed by `outputs` TensorRecords, `stages` StageRecords, `failed` PartReplies, then texts.
struct ReplyRecord {
  uint32_t number, code;      // of absl and gRPC; 0: done
  uint32_t text, text_bytes;  // why not, from the record's start
  uint32_t outputs, stages, failed, reserved;
  uint64_t run_nanos;
};
static_assert(sizeof(ReplyRecord) == 40 && sizeof(StageRecord) == 16 && sizeof(PartReply) == 16);

}  // namespace fermata::engine::apart
