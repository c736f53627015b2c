#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "engine/snapshot.h"

namespace fermata::engine::apart {

// What happened to the processes of models, by their name; outlives them. Thread-safe.
class Ledger {
 public:
  void started(const std::string& model, int64_t pid);
  void died(const std::string& model, const std::string& cause);
  void spent(const std::string& model, Duration processor);  // by one that has ended
  std::map<std::string, ProcessStatistics> rows() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ProcessStatistics> rows_;
};

}  // namespace fermata::engine::apart
