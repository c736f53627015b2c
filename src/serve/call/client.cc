#include "serve/call/client.h"

#include <atomic>

namespace fermata::serve {

uint64_t new_connection_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace fermata::serve
