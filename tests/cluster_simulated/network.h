#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cluster/wire/channel.h"
#include "cluster_simulated/world.h"

namespace fermata::simulated {

class End;
class Listening;

// Hosts and the ways between them, in virtual time: what tcp_channel.h means in a simulation. What
// is sent over a way that is cut arrives when it is whole again, as TCP sends it again; a host that
// is down says nothing.
class Network {
 public:
  explicit Network(World& world) : world_(world) { current_ = this; }
  static Network& current() { return *current_; }
  World& world() { return world_; }

  static std::string address(uint32_t place) { return "10.0.0." + std::to_string(place); }
  void delay(Duration one_way) { delay_ = one_way; }
  // Of one way, on top of the others'.
  void slow(uint32_t from, uint32_t to, Duration more) { slow_[{from, to}] = more; }
  // How much may be under way in one direction of a connection.
  void capacity(uint64_t bytes) { capacity_ = bytes; }
  void cut(uint32_t from, uint32_t to) { ++cut_[{from, to}]; }
  void mend(uint32_t from, uint32_t to);
  bool open(uint32_t from, uint32_t to) const;
  Duration way(uint32_t from, uint32_t to) const;
  // The kernel ends its connections; or, with its host, nobody does.
  void ended(const Process& process, bool with_host);
  void up(uint32_t place);

  absl::StatusOr<std::shared_ptr<cluster::Channel>> connect(const std::string& address,
                                                            Duration patience);
  std::unique_ptr<cluster::Acceptor> listen(uint16_t port);

 private:
  friend class End;
  friend class Listening;
  struct Heard {  // what listens at an address
    Listening* by = nullptr;
    Process* process = nullptr;
  };
  static Network* current_;
  World& world_;
  Duration delay_ = Duration::micros(50);
  uint64_t capacity_ = 1 << 20;
  std::map<std::pair<uint32_t, uint32_t>, int> cut_;
  std::map<std::pair<uint32_t, uint32_t>, Duration> slow_;
  std::set<uint32_t> down_;
  std::map<std::pair<uint32_t, uint16_t>, Heard> listening_;
  std::vector<std::shared_ptr<End>> all_;
  uint16_t next_port_ = 10000;
};

}  // namespace fermata::simulated
