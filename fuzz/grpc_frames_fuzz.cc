#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "serve/grpc/frame_watch.h"

// The frames of a connection: it is a flood or not, however the bytes are cut.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using fermata::serve::FrameWatch;
  const auto at_once = [] { return std::chrono::steady_clock::time_point(); };
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  FrameWatch whole(at_once), pieces(at_once);
  bool good = true;
  for (size_t i = 0; i < size && good; i += 7) good = pieces.see(bytes.substr(i, 7));
  FERMATA_CHECK(whole.see(bytes) == good);
  return 0;
}
