#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/datatype.h"

namespace fermata {

using Shape = std::vector<int64_t>;

// A handle to payload bytes that live elsewhere: in a received message, in
// shared memory, in an executor's output. Copying the handle shares the bytes;
// `owner` keeps them alive. The scheduler never looks behind it.
struct KeptElsewhere;
struct Payload {
  absl::Span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  std::shared_ptr<const KeptElsewhere> elsewhere = nullptr;  // instead of bytes; else null
  uint64_t size() const;
};

// Bytes that a worker of another host keeps: of a stage that ran there, for those that read it. No
// executor gets them so.
struct KeptElsewhere {
  std::string holder;  // HOST:PORT, where they are fetched
  uint64_t key = 0;    // of the tensor there
  uint64_t first = 0, size = 0;
  std::string name;                    // of the tensor, as its model calls it
  std::shared_ptr<const void> source;  // what gives it again
};

inline uint64_t Payload::size() const {
  return elsewhere == nullptr ? bytes.size() : elsewhere->size;
}

template <class T>
Payload payload_of(std::vector<T> values) {
  const auto kept = std::make_shared<std::vector<T>>(std::move(values));
  return {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(kept->data()),
                              kept->size() * sizeof(T)),
          kept};
}

// Little-endian, row-major; BYTES elements as uint32 length then the bytes, as
// the protocol's binary extension has them. For a model that batches, shape[0]
// counts items.
struct Tensor {
  std::string name;
  DataType datatype = DataType::kFp32;
  Shape shape;
  Payload data;
};

}  // namespace fermata
