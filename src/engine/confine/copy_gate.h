#pragma once

#include <sys/types.h>

#include <set>

#include "absl/status/status.h"
#include "base/time.h"

namespace fermata::engine {

// Where the kernel asks whether a process that may copy itself (confine_to_copying()) does so now:
// it waits, and so do its copies that are not confined further, until it is answered here. Nobody
// copies itself any more once this is gone.
class CopyGate {
 public:
  explicit CopyGate(int listener) : listener_(listener) {}  // which it closes
  ~CopyGate();
  CopyGate(const CopyGate&) = delete;
  CopyGate& operator=(const CopyGate&) = delete;

  // Until there is something to read from `stream`, or its other end is closed, or until then: lets
  // `process` copy itself once, and denies everything else that is asked.
  void let_one_copy(pid_t process, int stream, Time until);

 private:
  bool answer_one(pid_t process);

  const int listener_;
};

// Ends the children of this process in the group of `process`, one of them that has ended and
// is not waited for yet, but for itself and `known`: copies of it that have not said that they are
// there.
void end_unknown_copies(pid_t process, const std::set<pid_t>& known);

}  // namespace fermata::engine
