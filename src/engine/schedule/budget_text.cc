#include "engine/schedule/budget_text.h"

#include <fmt/format.h>

namespace fermata::engine {

std::string budget_text(Duration budget, Duration left) {
  if (left < Duration()) {
    return fmt::format("the budget was {:.3f} ms and ended {:.3f} ms ago", budget.millis(),
                       -left.millis());
  }
  return fmt::format("the budget was {:.3f} ms, {:.3f} ms of it are left", budget.millis(),
                     left.millis());
}

}  // namespace fermata::engine
