// What can only help never hurts by more than a little, over scenarios that are drawn from a seed:
// one worker more, looser deadlines, faster models. A scenario that breaks this is made smaller as
// long as it still does, and printed as a document for `fermata simulate`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"
#include "simulate/driver.h"
#include "simulate/scenario_document.h"

namespace fermata::simulate {
namespace {

constexpr uint64_t kSeeds = 60;
// Shares of the requests: of all, and of the model that fares worst. In overload what helps all may
// cost one: looser deadlines fill batches of others first.
constexpr double kOfAll = 0.01, kOfWorst = 0.1;

// One to six models on one to eight workers, from a tenth to 1.3 times what full batches bear.
Json drawn(uint64_t seed) {
  Random random(seed);
  Json models = Json::array();
  const uint64_t workers = 1 + random.below(8), count = 1 + random.below(6);
  double work_ms = 0, shares = 0;  // of a request in a full batch that ends in time
  for (uint64_t i = 0; i < count; ++i) {
    const double alpha = 0.3 + 5 * random.uniform(), beta = 12 * random.uniform();
    const double slo = (alpha + beta) * (1.5 + 6 * random.uniform()),
                 share = 0.2 + random.uniform();
    work_ms += share * (alpha + beta / std::max(1.0, std::floor((slo - beta) / alpha)));
    shares += share;
    models.push_back({{"name", fmt::format("m{}", i)},
                      {"latency_ms", {{"alpha", alpha}, {"beta", beta}}},
                      {"slo_ms", slo},
                      {"share", share}});
    if (random.below(3) == 0) {
      models.back()["arrival"] = {{"process", "gamma"}, {"shape", 0.05 + random.uniform()}};
    }
  }
  const double bound = 1e3 * static_cast<double>(workers) * shares / work_ms;
  return {{"seed", seed},
          {"warmup_s", 2},
          {"duration_s", 8},
          {"workers", {{"count", workers}}},
          {"rate_rps", bound * (0.1 + 1.2 * random.uniform())},
          {"models", models}};
}

struct Lost {
  double of_all = 0, of_worst = 0;
};
Lost lost(const Json& document) {
  auto text = Document::parse(document.dump(), Document::Format::kJson);
  FERMATA_CHECK(text.ok());
  const auto scenario = text->read(read_scenario);
  FERMATA_CHECK(scenario.ok());
  const auto result = run(*scenario);
  FERMATA_CHECK(result.ok());
  double offered = 0, on_time = 0;
  for (const ModelResult& model : result->models) {
    offered += static_cast<double>(model.offered);
    on_time += static_cast<double>(model.on_time);
  }
  return {offered > 0 ? 1 - on_time / offered : 0, result->worst_bad_rate()};
}

struct Help {
  const char* name;
  void (*apply)(Json& document);
};
void scale(Json& number, double by) { number = by * number.get<double>(); }
const Help kHelps[] = {
    {"OneWorkerMore",
     [](Json& d) { d["workers"]["count"] = d["workers"]["count"].get<int64_t>() + 1; }},
    {"LooserDeadlines",
     [](Json& d) {
       for (Json& model : d["models"]) scale(model["slo_ms"], 1.2);
     }},
    {"FasterModels",
     [](Json& d) {
       for (Json& model : d["models"]) {
         for (const char* field : {"alpha", "beta"}) scale(model["latency_ms"][field], 0.85);
       }
     }},
};

// Whether it hurts by more than it may.
bool hurts(const Json& document, const Help& help) {
  Json helped = document;
  help.apply(helped);
  const Lost before = lost(document), after = lost(helped);
  return after.of_all > before.of_all + kOfAll || after.of_worst > before.of_worst + kOfWorst;
}

// The scenarios that are one step simpler.
std::vector<Json> simpler(const Json& document) {
  std::vector<Json> all;
  const auto with = [&](auto change) { change(all.emplace_back(document)); };
  const size_t models = document["models"].size();
  for (size_t i = 0; i < models; ++i) {
    if (models > 1) with([i](Json& d) { d["models"].erase(i); });
    if (document["models"][i].contains("arrival")) {
      with([i](Json& d) { d["models"][i].erase("arrival"); });
    }
  }
  if (document["workers"]["count"] > 1) {
    with([](Json& d) { d["workers"]["count"] = d["workers"]["count"].get<int64_t>() - 1; });
  }
  if (document["duration_s"] > 1.0) with([](Json& d) { scale(d["duration_s"], 0.5); });
  return all;
}

template <class Fails>
Json shrunk(Json document, const Fails& fails) {
  for (bool again = true; again;) {
    again = false;
    for (Json& each : simpler(document)) {
      if (!fails(each)) continue;
      document = std::move(each);
      again = true;
      break;
    }
  }
  return document;
}

class Metamorphic : public testing::TestWithParam<Help> {};
INSTANTIATE_TEST_SUITE_P(Each, Metamorphic, testing::ValuesIn(kHelps),
                         [](const auto& info) { return info.param.name; });

TEST_P(Metamorphic, NeverHurtsByMoreThanALittle) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Json document = drawn(seed);
    if (!hurts(document, GetParam())) continue;
    const Json small = shrunk(document, [](const Json& each) { return hurts(each, GetParam()); });
    ADD_FAILURE() << "seed " << seed << ": " << GetParam().name << " hurts in\n" << small.dump(1);
  }
}

// What shrinks is what a reader gets: the least that still fails.
TEST(Shrunk, KeepsOnlyWhatTheFailureNeeds) {
  const auto fails = [](const Json& document) {
    for (const Json& model : document["models"]) {
      if (model["name"] == "m0") return document["workers"]["count"] >= 2;
    }
    return false;
  };
  uint64_t seed = 1;
  while (drawn(seed)["models"].size() < 3 || !fails(drawn(seed))) ++seed;
  const Json small = shrunk(drawn(seed), fails);
  EXPECT_EQ(small["models"].size(), 1u);
  EXPECT_EQ(small["workers"]["count"], 2);
  EXPECT_FALSE(small["models"][0].contains("arrival"));
  EXPECT_LE(small["duration_s"], 1.0);
}

}  // namespace
}  // namespace fermata::simulate
