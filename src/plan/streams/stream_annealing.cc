#include "plan/streams/stream_annealing.h"

#include <algorithm>
#include <cmath>

#include "plan/streams/stream_mapping.h"

namespace fermata::plan {
namespace {

constexpr double kFirstTemperature = 0.0125, kLastTemperature = 0.0005, kCoolingStep = 0.99;

enum class Mode : uint8_t { kDegrade, kUpgrade };

class StreamAnnealing {
 public:
  StreamAnnealing(const StreamProblem& problem, const StreamTables& tables, Annealing how,
                  uint64_t max_steps, Random& random);
  AnnealedStreams solve();

 private:
  struct State {
    std::vector<uint32_t> ranks;  // ascending: the most accurate DNN first
    StreamGroups groups;
    double served = 0;    // O1: of the clients that can be served, the fraction that is
    double accuracy = 0;  // O2: the mean over the rates of all clients
  };

  State mapped(std::vector<uint32_t> ranks);
  std::vector<uint32_t> neighbor(std::vector<uint32_t> ranks, Mode mode);
  void run(Mode mode);

  const StreamTables& tables_;
  const Annealing how_;
  const uint64_t max_steps_;
  Random& random_;
  StreamMapper mapper_;
  double servable_ = 0, rates_ = 0;
  State best_;
};

StreamAnnealing::StreamAnnealing(const StreamProblem& problem, const StreamTables& tables,
                                 Annealing how, uint64_t max_steps, Random& random)
    : tables_(tables), how_(how), max_steps_(max_steps), random_(random), mapper_(tables) {
  for (uint32_t c = 0; c < tables.clients(); ++c) {
    servable_ += tables.servable(c);
    rates_ += tables.rate(c);
  }
  std::vector<uint32_t> ranks(problem.workers, tables.ranks() - 1);
  for (size_t i = 0; i < problem.current.size(); ++i) ranks[i] = tables.rank_of(problem.current[i]);
  best_ = mapped(std::move(ranks));
}

StreamAnnealing::State StreamAnnealing::mapped(std::vector<uint32_t> ranks) {
  std::sort(ranks.begin(), ranks.end());
  State state;
  state.groups = mapper_.map(ranks);
  for (uint32_t c = 0; c < tables_.clients(); ++c) {
    if (state.groups[c] == kNoGroup) continue;
    state.served += 1;
    state.accuracy += tables_.rate(c) * tables_.accuracy(ranks[state.groups[c]]);
  }
  if (servable_ > 0) state.served /= servable_;
  if (rates_ > 0) state.accuracy /= rates_;
  state.ranks = std::move(ranks);
  return state;
}

std::vector<uint32_t> StreamAnnealing::neighbor(std::vector<uint32_t> ranks, Mode mode) {
  const uint32_t last = tables_.ranks() - 1;
  const uint64_t few = std::max<uint64_t>(1, ranks.size() / 2);
  for (uint32_t& rank : ranks) {
    if (how_ == Annealing::kThorough && random_.below(few) > 0) continue;
    const uint64_t step = random_.below(mode == Mode::kDegrade ? 2 : 3);
    if (step == 1) rank = std::min(rank + 1, last);
    if (step == 2 && rank > 0) --rank;
  }
  return ranks;
}

void StreamAnnealing::run(Mode mode) {
  const bool upgrade = mode == Mode::kUpgrade;
  const auto metric = [&](const State& s) { return upgrade ? s.accuracy : s.served; };
  State now = best_;
  for (double t = kFirstTemperature; t > kLastTemperature; t *= kCoolingStep) {
    if (mapper_.steps() >= max_steps_ || (!upgrade && now.served >= 1)) return;
    State next = mapped(neighbor(now.ranks, mode));
    if (upgrade && next.served < best_.served) continue;
    if (metric(next) > metric(best_)) best_ = next;
    const double worse = metric(now) - metric(next);
    if (worse < 0 || portable_exp(-worse / t) > random_.uniform()) now = std::move(next);
  }
}

AnnealedStreams StreamAnnealing::solve() {
  run(Mode::kDegrade);
  if (how_ == Annealing::kThorough || best_.served >= 1) run(Mode::kUpgrade);
  return {std::move(best_.groups), std::move(best_.ranks), best_.served, best_.accuracy,
          mapper_.steps()};
}

}  // namespace

AnnealedStreams anneal_streams(const StreamProblem& problem, const StreamTables& tables,
                               Annealing how, uint64_t max_steps, Random& random) {
  return StreamAnnealing(problem, tables, how, max_steps, random).solve();
}

}  // namespace fermata::plan
