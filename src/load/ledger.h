#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/time.h"
#include "load/account.h"
#include "load/records.h"
#include "load/spec.h"
#include "load/transport.h"

namespace fermata::load {

// Books how every request ended. ended() comes from the transport's thread; the
// accounts are read once that has gone.
class Ledger : public Listener {
 public:
  // Both outlive it; records[i] are those of service i.
  Ledger(const LoadSpec& spec, const std::vector<std::vector<Record>>& records);

  // Requests scheduled before this are not booked. Before the first is sent.
  void count_from(Time start) { count_from_ = start; }
  void ended(const Sending& sending, Answer answer) override;

  // Blocks until `sent` requests have ended, or the time is over.
  bool wait_for_all(uint64_t sent, Duration time);
  // What ends from here on was lost.
  void give_up() { given_up_ = true; }

  std::vector<Account> take_accounts() { return std::move(accounts_); }

 private:
  const LoadSpec& spec_;
  const std::vector<std::vector<Record>>& records_;
  std::vector<Account> accounts_;
  Time count_from_;
  std::atomic<bool> given_up_ = false;
  std::atomic<uint64_t> ended_ = 0;
  std::atomic<uint64_t> awaited_ = UINT64_MAX;  // how many there will be, once known
  std::mutex mutex_;
  std::condition_variable all_ended_;
};

}  // namespace fermata::load
