#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "engine/for_frontends.h"
#include "engine/services/stream_service.h"
#include "engine/threads/periodic.h"
#include "engine/threads/published.h"
#include "policy/stream/counted_workers.h"
#include "policy/stream/stream_pool.h"

namespace fermata::engine {

// The stream services of an engine: their calls become calls of their variants, which the engine
// serves as any others. One thread plans for all of them, since they share the workers.
// Thread-safe.
class Streams {
 public:
  // Makes those of the services that are not there yet and whose variants are served now; those
  // that wait for one are left out. Errors as StreamService::make has others. Not from several
  // threads.
  // `there`: how many of the workers are there now; empty: all.
  absl::Status start(const std::vector<ServiceOptions>& services, const Catalog& catalog,
                     uint32_t workers, std::function<uint32_t()> there,
                     const StreamService::Loading& loading, const StreamCosts::Sources& costs);
  // No service plans or loads anything any more when it returns.
  void stop();

  // A call of a stream service becomes one of a variant whose reply tells the client what to send
  // next; others stay as they are. False: it has been answered.
  bool route(InferRequest& request, Reply& reply) const;
  // Nothing: there is no such service.
  std::optional<StreamDirection> direct(InferRequest request) const;
  void operators_take(uint64_t process, std::string_view service,
                      std::vector<Duration> by_variant) const;
  void close(uint64_t owner) const;  // a connection ended
  bool serves(std::string_view service) const {
    return find(*services_.read(), service) != nullptr;
  }

  std::vector<std::shared_ptr<const Service>> faces() const;
  // Why the last start() left one out; empty: it did not. Of the thread that starts them.
  std::string why_waits(const std::string& service) const;
  // Of all services that had clients; none has been planned yet: nothing.
  std::optional<StreamDecision> last_decision() const;
  std::vector<StreamStatistics> statistics() const;

 private:
  using Services = std::vector<std::shared_ptr<StreamService>>;
  static std::shared_ptr<StreamService> find(const Services& services, std::string_view name);
  void plan();

  Published<Services> services_{std::make_shared<Services>()};
  std::map<std::string, std::string> waiting_;  // by service, why: as why_waits()
  std::optional<policy::StreamPool> pool_;      // the planner's thread, as what follows
  uint32_t workers_ = 0;
  std::function<uint32_t()> there_;
  std::optional<policy::CountedWorkers> counted_;  // where some are not always there
  mutable std::mutex mutex_;
  std::optional<StreamDecision> last_decision_;
  std::unique_ptr<Periodic> planner_;
};

}  // namespace fermata::engine
