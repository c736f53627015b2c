#include "plan/streams/stream_search.h"

#include <algorithm>
#include <utility>

#include "plan/streams/stream_group.h"

namespace fermata::plan {
namespace {

// Temperatures, in what one client of mean rate is worth.
constexpr double kHot = 0.03, kCold = 0.0005, kHotRoom = 1, kColdRoom = 0.02;
constexpr uint32_t kCoolings = 128;

// What a phase of the search raises. Room is the sum of squares of what groups could still
// carry, in clients of mean rate: it grows as room gathers in few groups, where others fit.
enum class Aim : uint8_t { kRoom, kAccuracy };

class StreamSearch {
 public:
  StreamSearch(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
               Random& random);

  // Tries max_steps moves. Ends early when, for room, every client is served.
  void run(Aim aim, uint64_t max_steps);
  const StreamGroups& best() const { return best_; }
  size_t served() const { return best_served_; }

 private:
  // A group as it would become, and what it would be worth for the aim.
  struct Weighed {
    bool possible = true;
    double worth = 0;
  };
  // Client `a` goes to group `to`; `b`, if there is one, from there to where `a` was.
  struct Move {
    uint32_t a = 0, b = kNoGroup, from = kNoGroup, to = kNoGroup;
  };

  void begin(Aim aim);
  void cool(double temperature, uint64_t steps);
  Move draw();
  bool possible(const Move& move);
  Weighed weigh(uint32_t group, uint32_t out, uint32_t in) const;
  double gain(const Move& move) const;
  void apply(const Move& move);

  const StreamTables& tables_;
  Random& random_;
  Aim aim_ = Aim::kAccuracy;
  std::vector<uint32_t> clients_;  // that some variant can serve
  StreamGroups at_, best_;
  std::vector<StreamGroup> groups_;
  std::vector<double> worth_;  // by group
  size_t served_ = 0, best_served_ = 0;
  double value_ = 0, best_value_ = 0;
  double mean_rate_ = 0;
  Weighed from_, to_;  // of the move that was last found possible
};

StreamSearch::StreamSearch(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
                           Random& random)
    : tables_(tables), random_(random), best_(start), worth_(workers) {
  for (uint32_t c = 0; c < tables.clients(); ++c) {
    if (!tables.servable(c)) continue;
    clients_.push_back(c);
    mean_rate_ += tables.rate(c);
    best_served_ += start[c] != kNoGroup;
  }
  mean_rate_ /= std::max(1.0, static_cast<double>(clients_.size()));
}

// From the best so far; what groups are worth depends on the aim.
void StreamSearch::begin(Aim aim) {
  aim_ = aim;
  at_ = best_;
  served_ = best_served_;
  groups_.assign(worth_.size(), StreamGroup(tables_));
  for (uint32_t c = 0; c < at_.size(); ++c) {
    if (at_[c] != kNoGroup) groups_[at_[c]].change(kNoGroup, c);
  }
  value_ = 0;
  for (uint32_t g = 0; g < groups_.size(); ++g) {
    worth_[g] = weigh(g, kNoGroup, kNoGroup).worth;
    value_ += worth_[g];
  }
  best_value_ = value_;
}

StreamSearch::Weighed StreamSearch::weigh(uint32_t group, uint32_t out, uint32_t in) const {
  const StreamGroup& g = groups_[group];
  if (aim_ == Aim::kRoom) {
    const double room = g.room_with(out, in).room / mean_rate_;
    return {room >= 0, room * room};
  }
  const StreamGroup::Changed changed = g.rank_with(out, in);
  if (changed.rank == tables_.ranks()) return {false, 0};
  return {true, changed.load * tables_.accuracy(changed.rank)};
}

StreamSearch::Move StreamSearch::draw() {
  Move move;
  move.a = clients_[random_.below(clients_.size())];
  move.from = at_[move.a];
  if (random_.below(2) == 0) {
    move.b = clients_[random_.below(clients_.size())];
    move.to = at_[move.b];
  } else {
    move.to = static_cast<uint32_t>(random_.below(groups_.size()));
  }
  return move;
}

bool StreamSearch::possible(const Move& move) {
  from_ = to_ = {};
  if (move.from == move.to) return false;
  if (move.to != kNoGroup) to_ = weigh(move.to, move.b, move.a);
  if (to_.possible && move.from != kNoGroup) from_ = weigh(move.from, move.a, move.b);
  return to_.possible && from_.possible;
}

double StreamSearch::gain(const Move& move) const {
  double gain = from_.worth + to_.worth;
  if (move.from != kNoGroup) gain -= worth_[move.from];
  if (move.to != kNoGroup) gain -= worth_[move.to];
  return gain;
}

void StreamSearch::apply(const Move& move) {
  value_ += gain(move);
  if (move.from != kNoGroup) {
    groups_[move.from].change(move.a, move.b);
    worth_[move.from] = from_.worth;
  }
  if (move.to != kNoGroup) {
    groups_[move.to].change(move.b, move.a);
    worth_[move.to] = to_.worth;
  }
  at_[move.a] = move.to;
  if (move.b != kNoGroup) at_[move.b] = move.from;
  served_ += move.b == kNoGroup && move.from == kNoGroup;
  if (std::pair(served_, value_) > std::pair(best_served_, best_value_)) {
    best_ = at_;
    best_served_ = served_;
    best_value_ = value_;
  }
}

void StreamSearch::cool(double temperature, uint64_t steps) {
  for (; steps > 0; --steps) {
    if (aim_ == Aim::kRoom && served_ == clients_.size()) return;
    const Move move = draw();
    if (!possible(move)) continue;
    const bool serves_more = move.b == kNoGroup && move.from == kNoGroup;
    const double worse = -gain(move);
    if (serves_more || worse <= 0 || worse < -temperature * portable_log(random_.positive())) {
      apply(move);
    }
  }
}

void StreamSearch::run(Aim aim, uint64_t max_steps) {
  begin(aim);
  if (clients_.empty()) return;
  const bool room = aim == Aim::kRoom;
  const double hot = room ? kHotRoom : kHot * mean_rate_ * tables_.accuracy(0);
  const double cooling = room ? kColdRoom / kHotRoom : kCold / kHot;
  const double step = portable_exp(portable_log(cooling) / kCoolings);
  double temperature = hot;
  for (uint32_t i = 0; i < kCoolings; ++i, temperature *= step) {
    cool(temperature, max_steps / kCoolings + 1);
  }
}

}  // namespace

StreamGroups search_streams(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
                            uint64_t max_steps, Random& random) {
  StreamSearch room(tables, workers, start, random);
  const size_t served = room.served();
  room.run(Aim::kRoom, max_steps / 4);
  StreamSearch search(tables, workers, room.served() > served ? room.best() : start, random);
  search.run(Aim::kAccuracy, max_steps);
  return search.best();
}

}  // namespace fermata::plan
