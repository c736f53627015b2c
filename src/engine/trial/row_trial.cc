#include "engine/trial/row_trial.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "engine/confine/child.h"
#include "engine/execute/gather.h"
#include "engine/trial/first_runs.h"
#include "engine/trial/row_distance.h"

namespace fermata::engine {
namespace {

using Verdict = RowTrial::Verdict;
using Rows = std::vector<uint32_t>;
using Answer = std::vector<Tensor>;  // to one item

constexpr Duration kBrief = Duration::millis(50), kStopped = Duration::seconds(5);
constexpr double kMostTriedBytes = 64 << 20;  // of one batch
constexpr double kSlight = 0.05;              // of an output's largest number
constexpr double kClearly = 4;                // so much more than from run to run
constexpr uint32_t kOtherRows = 8;            // from here on, to see whether it happens again

class TrialRun {
 public:
  TrialRun(Executor& executor, const Variant& variant, Duration budget)
      : executor_(executor), variant_(variant), budget_(budget) {}

  absl::StatusOr<RowTrial> run(const Shapes& given) {
    if (absl::Status found = find_inputs(given); !found.ok()) return rejected_with(found);
    result_.ran = true;
    if (took_ > kMostMeasured) {
      return untried(fmt::format("an item takes {:.1f} s", took_.seconds()));
    }
    // By processor time, since what others do is not to change what is found.
    const auto end = std::clock() + static_cast<std::clock_t>(budget_.seconds() * CLOCKS_PER_SEC);
    result_.verdict = Verdict::kApart;
    size_t tried = 0;
    // Of each size one batch, and another in which some items have other neighbours.
    for (const Rows& items : std::vector<Rows>{
             {0, 1}, {0, 2}, {3, 1}, {0, 1, 2, 3}, {0, 4, 2, 5}, {0, 1, 2, 3, 4, 5, 6}}) {
      const size_t always = took_ > kBrief ? 1 : 2;
      if (!fits(items) || (tried >= always && std::clock() >= end)) continue;
      const absl::Status looked = look_at(items);
      if (!looked.ok() && (tried == 0 || lacks_memory(looked))) return rejected_with(looked);
      if (!looked.ok() || result_.verdict == Verdict::kTogether ||
          result_.verdict == Verdict::kUntried) {
        break;
      }
      ++tried;
    }
    return std::move(result_);
  }

 private:
  RowTrial untried(std::string why) {
    return {Verdict::kUntried, std::move(why), result_.ran, std::move(result_.runs)};
  }

  absl::StatusOr<RowTrial> rejected_with(const absl::Status& why) {
    if (lacks_memory(why)) return why;
    if (is_not_by_items(why)) {
      return RowTrial{Verdict::kTogether, fmt::format("of one item, {}", message(why)), true};
    }
    return untried(fmt::format("it does not run on made-up inputs: {}", message(why)));
  }

  bool fits(const Rows& items) const {
    return items.size() <= variant_.signature.max_batch &&
           input_bytes(variant_, shapes_, static_cast<uint32_t>(items.size())) <= kMostTriedBytes;
  }

  // Values and shapes that the model takes; else why it takes none.
  absl::Status find_inputs(const Shapes& given) {
    std::vector<Shapes> candidates;
    if (!given.empty()) candidates.push_back(item_shapes(variant_, given, 1));
    for (const int64_t free_dimension : {8, 32, 1}) {
      candidates.push_back(item_shapes(variant_, {}, free_dimension));
      if (candidates.back().empty()) break;
    }
    absl::Status refused = invalid("they are too large");
    for (const MadeUp kind : {MadeUp::kVaried, MadeUp::kLikely}) {
      for (const Shapes& shapes : candidates) {
        if (!check_shapes(variant_, shapes).ok()) continue;
        if (input_bytes(variant_, shapes, 2) > kMostTriedBytes) continue;
        kind_ = kind;
        shapes_ = shapes;
        auto answers = answers_to({0});
        if (answers.ok()) {
          alone_[0] = std::move(answers->front());
          return absl::OkStatus();
        }
        refused = answers.status();
        if (lacks_memory(refused) || is_not_by_items(refused) || took_ > kMostMeasured)
          return refused;
      }
    }
    return refused;
  }

  absl::StatusOr<std::vector<Answer>> answers_to(const Rows& items) {
    const std::vector<Tensor> inputs = made_up_inputs(variant_, shapes_, kind_, items);
    const std::vector<std::string> all_outputs;
    const auto count = static_cast<uint32_t>(items.size());
    const Time start = monotonic_now();
    BatchResult ran = run_and_wait(
        executor_,
        {.variant = variant_.id, .parts = {{&inputs, &all_outputs, 0, count}}, .limit = kStopped});
    took_ = monotonic_now() - start;
    RETURN_IF_ERROR(ran.parts.front().status());
    if (shapes_.empty() && ran.stages.empty()) result_.runs[count].push_back(ran.total());
    std::vector<Answer> answers(count);
    for (uint32_t i = 0; i < count; ++i) {
      for (const Tensor& output : *ran.parts.front()) {
        Tensor& own = answers[i].emplace_back(output);
        own.shape[0] = 1;
        ASSIGN_OR_RETURN(own.data, rows(output, i, 1));
      }
    }
    return answers;
  }

  absl::StatusOr<const Answer*> alone(uint32_t row) {
    const auto known = alone_.find(row);
    if (known != alone_.end()) return &known->second;
    ASSIGN_OR_RETURN(std::vector<Answer> answers, answers_to({row}));
    return &(alone_[row] = std::move(answers.front()));
  }

  // What a batch shows, in words; nothing where its items are answered as they are alone, and as in
  // batches of that size before.
  absl::StatusOr<std::optional<RowDistance>> difference(const Rows& items) {
    std::vector<const Answer*> expected;
    for (const uint32_t row : items) {
      ASSIGN_OR_RETURN(expected.emplace_back(), alone(row));
    }
    auto answers = answers_to(items);
    if (!answers.ok() && lacks_memory(answers.status())) return answers.status();
    if (!answers.ok()) {
      return RowDistance{"", std::numeric_limits<double>::infinity(),
                         fmt::format("a batch of {} items fails, where each of them runs alone: {}",
                                     items.size(), message(answers.status()))};
    }
    std::optional<RowDistance> furthest;
    const auto look = [&](const Answer& before, uint32_t place, bool same_place) {
      auto found = row_distance(before, (*answers)[place], same_place);
      if (!found || (furthest && furthest->part >= found->part)) return;
      found->how = fmt::format("output '{}' {} in a batch of {} items, compared with {}",
                               found->output, found->how, items.size(),
                               same_place ? "one of other items" : "the item alone");
      furthest = std::move(found);
    };
    for (uint32_t place = 0; place < items.size(); ++place) {
      look(*expected[place], place, false);
      const auto before = in_batches_.find({items.size(), place, items[place]});
      if (before != in_batches_.end()) look(before->second, place, true);
    }
    for (uint32_t place = 0; place < items.size(); ++place) {
      in_batches_[{items.size(), place, items[place]}] = std::move((*answers)[place]);
    }
    return furthest;
  }

  // How far a second run of each item alone is from its first: 0 where nothing is drawn at random
  // or kept from run to run.
  absl::StatusOr<double> unsteadiness(const Rows& items) {
    double furthest = 0;
    for (const uint32_t row : items) {
      ASSIGN_OR_RETURN(const std::vector<Answer> again, answers_to({row}));
      ASSIGN_OR_RETURN(const Answer* before, alone(row));
      const auto found = row_distance(*before, again.front(), true);
      if (found) furthest = std::max(furthest, found->part);
    }
    return furthest;
  }

  absl::Status look_at(const Rows& items) {
    ASSIGN_OR_RETURN(const std::optional<RowDistance> seen, difference(items));
    if (!seen) return absl::OkStatus();
    ASSIGN_OR_RETURN(const double unsteady, unsteadiness(items));
    if (unsteady * kClearly >= seen->part) {
      result_ = untried("the same item twice is answered differently, as by random numbers");
      return absl::OkStatus();
    }
    // Items at the edge between two answers may fall either way; others would not do so again.
    Rows others = items;
    for (uint32_t& row : others) row += kOtherRows;
    ASSIGN_OR_RETURN(const std::optional<RowDistance> again, confirmed(items, others));
    if (!again) return absl::OkStatus();
    const bool slight = std::max(seen->part, again->part) <= kSlight;
    if (slight && result_.verdict == Verdict::kSlightly) return absl::OkStatus();
    result_.verdict = slight ? Verdict::kSlightly : Verdict::kTogether;
    result_.seen = seen->how;
    return absl::OkStatus();
  }

  // With other items: the batch, and where that tells nothing one with other neighbours.
  absl::StatusOr<std::optional<RowDistance>> confirmed(const Rows& items, const Rows& others) {
    ASSIGN_OR_RETURN(std::optional<RowDistance> again, difference(others));
    if (again) return again;
    Rows neighbours = others;
    for (size_t place = 1; place < neighbours.size(); place += 2) {
      neighbours[place] += static_cast<uint32_t>(items.size());
    }
    return difference(neighbours);
  }

  Executor& executor_;
  const Variant& variant_;
  const Duration budget_;
  Shapes shapes_;
  MadeUp kind_ = MadeUp::kVaried;
  Duration took_;  // the last run
  std::map<uint32_t, Answer> alone_;
  std::map<std::tuple<size_t, uint32_t, uint32_t>, Answer> in_batches_;  // by size, place, item
  RowTrial result_;
};

}  // namespace

absl::StatusOr<RowTrial> try_rows(Executor& executor, const Variant& variant, const Shapes& given,
                                  Duration budget) {
  if (variant.signature.max_batch < 2) return RowTrial();
  return TrialRun(executor, variant, budget).run(given);
}

}  // namespace fermata::engine
