#include "policy/chooser.h"

#include <algorithm>

#include "base/status.h"

namespace fermata::policy {
namespace {

class Single : public Chooser {
 public:
  explicit Single(Candidate candidate) : candidate_(candidate) {}

  void arrived(const Job& job, Time, std::vector<Nomination>& out) override {
    for (uint32_t first = 0; first < job.items; first += candidate_.max_batch) {
      const uint32_t items = std::min(candidate_.max_batch, job.items - first);
      out.push_back({job.id, candidate_.variant, first, items});
    }
  }

 private:
  Candidate candidate_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Chooser>> make_chooser(std::string_view name,
                                                      std::vector<Candidate> candidates) {
  if (name != "single") return invalid("chooser is '{}', expected single", name);
  if (candidates.size() != 1) {
    return invalid("chooser single has {} variants, expected one", candidates.size());
  }
  return std::make_unique<Single>(candidates[0]);
}

std::vector<std::string_view> chooser_names() { return {"single"}; }

}  // namespace fermata::policy
