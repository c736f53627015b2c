#include <gmock/gmock.h>

#include "policy/ensemble_hand.h"

namespace fermata::policy {
namespace {

using testing::Each;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;

// Three networks as the demo's scans have: easy and hard queries, more models are worth a little
// more each.
const std::vector<std::vector<double>> kScans = {{0, 0.98, 0.98, 1, 0.99, 1, 1, 1},
                                                 {0, 0.6, 0.7, 0.8, 0.75, 0.85, 0.9, 1}};

// As items of one request: all at once, and nothing after them.
TEST(EnsembleChooser, AnswersManyQueriesThatComeAtOnce) {
  for (const uint32_t workers : {1u, 2u, 4u}) {
    for (const bool serve_all : {false, true}) {
      for (const int queries : {30, 200, 500}) {
        EnsembleHand h("fermata");
        const KeyId e = h.ensemble({1.5, 2.5, 4}, kScans, 0.5, serve_all);
        for (uint32_t w = 0; w < workers; ++w) h.worker();
        std::vector<Task> tasks;
        for (int i = 0; i < queries; ++i) tasks.push_back(h.arrive(e, 0, 20'000));
        h.note();
        for (int i = 0; i < queries; ++i) h.scored(tasks[i], i % 2, 0.5), h.note();
        h.now = at_ms(0.5);
        h.run_until(21'000);
        EXPECT_THAT(h.concluded, SizeIs(queries)) << workers << " workers";
        EXPECT_THAT(h.dropped, IsEmpty());
        // Every model for everybody takes one worker that long, one by one.
        EXPECT_LE(h.now, at_ms(queries * 8.0)) << queries << " on " << workers;
        EXPECT_THAT(h.concluded, Each(Field(&Concluded::ran, 7u)));
      }
    }
  }
}

}  // namespace
}  // namespace fermata::policy
