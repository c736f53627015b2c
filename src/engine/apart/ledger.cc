#include "engine/apart/ledger.h"

namespace fermata::engine::apart {

void Ledger::started(const std::string& model, int64_t pid) {
  const std::lock_guard lock(mutex_);
  ProcessStatistics& row = rows_[model];
  row.pid = pid;
  ++row.starts;
}

void Ledger::died(const std::string& model, const std::string& cause) {
  const std::lock_guard lock(mutex_);
  ++rows_[model].deaths_by[cause];
}

void Ledger::spent(const std::string& model, Duration processor) {
  const std::lock_guard lock(mutex_);
  rows_[model].processor_s += processor.seconds();
}

std::map<std::string, ProcessStatistics> Ledger::rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

}  // namespace fermata::engine::apart
