#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "base/random.h"
#include "plan/streams/stream_planner.h"
#include "policy/stream/stream_sessions.h"
#include "policy/tree/members.h"
#include "policy/tree/pipeline.h"
#include "policy/tree/service_tree.h"
#include "scaling/cases.h"

namespace fermata::scaling {
namespace {

using namespace policy;

// Requests for a pipeline of three stages: a model, one of two services, two services together.
class Tree {
 public:
  Tree() {
    const auto leaf = [this](double ms) {
      return tree_.add_leaf(*LatencyTable::make(LinearLatency{ms / 4, ms}, 16));
    };
    const VariantsInfo either{.name = "either",
                              .variants = {{KeyId(), 0.7, {0.7}}, {KeyId(), 0.8, {0.8}}},
                              .penalty = {plan::PenaltyShape::kStep},
                              .prior = {1}};
    const EnsembleInfo both{.name = "both",
                            .models = {KeyId(), KeyId()},
                            .utility = {{0, 0.6, 0.7, 0.9}},
                            .share = {1}};
    const ServiceId one = composite(
        std::make_unique<MembersChooser>(either, std::vector<ServiceId>{leaf(2), leaf(4)}));
    const ServiceId two =
        composite(std::make_unique<MembersChooser>(both, std::vector<ServiceId>{leaf(3), leaf(5)}));
    service_ = composite(std::make_unique<PipelineChooser>(
        std::vector<StageInfo>{{leaf(1), {}}, {one, {0}}, {two, {1}}}));
  }

  void arrive(size_t n, double slo_ms) {
    Random random(7);
    for (size_t i = 0; i < n; ++i) {
      const JobId id = next();
      roots_.push_back(id);
      tree_.arrived(id, service_, 1, now_ + Duration::from_millis(slo_ms * (1 + random.uniform())),
                    now_);
      act();
    }
  }
  // Until no request is left, each time one that runs, in no order.
  void answer_all() {
    for (Random random(11); !running_.empty();) {
      std::swap(running_[random.below(running_.size())], running_.back());
      const JobId child = running_.back();
      running_.pop_back();
      now_ = now_ + Duration::micros(1);
      tree_.ended(child, Ending::kAnswered, 1, now_);
      act();
    }
  }
  void withdraw_all() {
    Random random(11);
    for (size_t i = roots_.size(); i > 1; --i) std::swap(roots_[i - 1], roots_[random.below(i)]);
    for (const JobId root : roots_) {
      (void)tree_.withdrawn(root);
      tree_.decisions().clear();
    }
  }
  void be_late(double ms) {
    now_ = now_ + Duration::from_millis(ms);
    answer_all();
  }

 private:
  ServiceId composite(std::unique_ptr<Chooser> chooser) {
    const ServiceId service = tree_.add(std::move(chooser));
    composites_.insert(service);
    return service;
  }
  JobId next() { return JobId(++ids_); }
  // As a driver does: a child that is a service is a request again.
  void act() {
    while (!tree_.decisions().empty()) {
      TreeDecisions decisions = std::exchange(tree_.decisions(), {});
      for (const TreeDecisions::Started& child : decisions.started) {
        if (composites_.contains(child.service)) {
          inner_[child.id.value()] = child.id;
          tree_.arrived(child.id, child.service, child.items, child.due, now_);
        } else {
          running_.push_back(child.id);
        }
      }
      for (const TreeDecisions::Ended& node : decisions.ended) {
        if (inner_.erase(node.id.value()) == 1) tree_.ended(node.id, node.how, node.made, now_);
      }
    }
  }

  uint64_t ids_ = 0;
  ServiceTree tree_{[this] { return next(); }};
  std::set<ServiceId> composites_;
  ServiceId service_;
  Time now_ = Time::from_nanos(1'000'000);
  std::vector<JobId> roots_, running_;
  std::map<uint64_t, JobId> inner_;  // nodes below the roots
};

// Clients of a stream service of two sizes.
class Clients {
 public:
  explicit Clients(size_t n) : sessions_(settings(n)), n_(n) {}

  void hello_all() {
    for (size_t i = 0; i < n_; ++i) (void)sessions_.hello(frame(i), later());
  }
  void send_all() {
    for (size_t i = 0; i < n_; ++i) (void)sessions_.frame(frame(i), later());
  }
  void ask_all() {
    for (size_t i = 0; i < n_; ++i) (void)sessions_.advice(number(i), i + 1);
  }
  void leave_all() {
    for (size_t i = 0; i < n_; ++i) sessions_.leave(number(i), i + 1);
  }
  void close_all() {
    for (size_t i = 0; i < n_; ++i) sessions_.close(n_ - i);
  }
  void plan() {
    (void)sessions_.wants_plan(later());
    const plan::StreamProblem problem = sessions_.problem(now_);
    sessions_.planned(problem, plan::plan_streams(problem));
  }

 private:
  static StreamSettings settings(size_t n) {
    StreamSettings settings;
    for (uint32_t v = 0; v < 2; ++v) {
      settings.variants.push_back({.name = number(v),
                                   .input_size = 100 * (v + 1),
                                   .accuracy = 0.4 * (v + 1),
                                   .latency = *LatencyTable::make(LinearLatency{2.0 + v, 4}, 8)});
    }
    settings.workers = 4;
    settings.most_clients = static_cast<uint32_t>(n);
    return settings;
  }
  static StreamFrame frame(size_t i) {
    return {.client = number(i),
            .owner = i + 1,
            .rate_rps = 0.1 * static_cast<double>(1 + i % 7),  // four workers can serve all
            .bandwidth_mbps = 20,
            .slo = Duration::millis(100 + static_cast<int64_t>(i % 5)),
            .bytes = 1000};
  }
  Time later() { return now_ = now_ + Duration::micros(1); }

  StreamSessions sessions_;
  size_t n_;
  Time now_ = Time::from_nanos(1'000'000);
};

}  // namespace

void add_service_cases(Cases& cases) {
  constexpr double kRelaxed = 1e7, kTight = 30;
  const auto tree = [&cases](const char* name, double slo_ms, void (*work)(Tree&)) {
    cases.push_back({name, 500, [slo_ms, work](size_t n) {
                       Tree requests;
                       requests.arrive(n, slo_ms);
                       measured([&] { work(requests); });
                     }});
  };
  cases.push_back({"tree_arrive", 500, [](size_t n) {
                     Tree requests;
                     measured([&] { requests.arrive(n, kRelaxed); });
                   }});
  tree("tree_answer", kRelaxed, [](Tree& requests) { requests.answer_all(); });
  tree("tree_late", kTight, [](Tree& requests) { requests.be_late(1e3); });
  tree("tree_withdraw", kRelaxed, [](Tree& requests) { requests.withdraw_all(); });

  const auto streams = [&cases](const char* name, void (*work)(Clients&)) {
    cases.push_back({name, 250, [work](size_t n) {
                       Clients clients(n);
                       clients.hello_all();
                       clients.plan();
                       measured([&] { work(clients); });
                     }});
  };
  cases.push_back({"streams_hello", 250, [](size_t n) {
                     Clients clients(n);
                     measured([&] { clients.hello_all(); });
                   }});
  streams("streams_frames", [](Clients& clients) { clients.send_all(); });
  streams("streams_advice", [](Clients& clients) { clients.ask_all(); });
  streams("streams_plan", [](Clients& clients) { clients.plan(); });
  streams("streams_leave", [](Clients& clients) { clients.leave_all(); });
  streams("streams_close", [](Clients& clients) { clients.close_all(); });
}

}  // namespace fermata::scaling
