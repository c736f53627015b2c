#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "cluster/options.h"
#include "cluster/wire/channel.h"
#include "cluster/wire/lookout.h"
#include "cluster/worker/keeper.h"
#include "engine/threads/periodic.h"

namespace fermata::cluster {

// The ways from a worker's host to frontends, and to other workers that keep what it reads. One
// that is cut is remembered, and looked for beside what runs until it is there again, so that none
// of the host's workers waits for it meanwhile. Thread-safe.
class Ways {
 public:
  // `keeper`: of this host, which frontends are told of.
  Ways(TlsFiles tls, Lookout& lookout, const Keeper& keeper)
      : tls_(std::move(tls)), lookout_(lookout), keeper_(keeper) {}
  ~Ways();
  Ways(const Ways&) = delete;
  Ways& operator=(const Ways&) = delete;

  // UNAVAILABLE at once, with the cause, where it is cut.
  absl::Status check(const std::string& address);
  // Blocks for at most that long.
  absl::StatusOr<std::shared_ptr<Channel>> connect(const std::string& address, Duration patience);
  void lost(const std::string& address, const absl::Status& why);
  // Something did not come from there in time, which may be slow only: it is looked for, and is cut
  // from when it does not answer that.
  void doubt(const std::string& address, const absl::Status& why);

 private:
  struct Cut {
    absl::Status why;
    Time asked;         // for it, by a worker
    bool known = true;  // false: it is doubted
  };
  void note(const std::string& address, const absl::Status& why, bool known);
  void look();
  absl::Status probe(const std::string& address);
  bool probing(std::shared_ptr<Channel> channel);  // false: no more

  const TlsFiles tls_;
  Lookout& lookout_;
  const Keeper& keeper_;
  std::mutex mutex_;
  bool over_ = false;
  std::map<std::string, Cut> cut_;         // by address; what is doubted too
  std::shared_ptr<Channel> probing_;       // of the thread that looks
  std::optional<engine::Periodic> timer_;  // last: uses the above; from the first that is cut on
};

}  // namespace fermata::cluster
