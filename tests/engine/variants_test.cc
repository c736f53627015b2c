// Services that several variants may answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/status.h"
#include "engine/composite/variants_service.h"
#include "engine/fixture.h"
#include "engine/host/registry.h"
#include "engine/schedule/driver.h"
#include "engine/trial/loader.h"

namespace fermata::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A NumPy array file of format 1.0.
template <class T>
void write_npy(const TemporaryFolder& folder, const std::string& file, const std::string& descr,
               const std::string& shape, const std::vector<T>& values) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}";
  header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() % 256);
  text += static_cast<char>(header.size() / 256);
  text += header;
  text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  folder.write(file, text);
}

// Two emulated variants of three classes: "zero" knows class 0, "one" class 1.
struct Folder : TemporaryFolder {
  Folder() {
    variant("zero", {0.9, 0.1, 0.5});
    variant("one", {0.1, 0.8, 0.5});
    std::vector<float> features;
    std::vector<int64_t> labels;
    for (int i = 0; i < 30; ++i) {
      labels.push_back(i % 3);
      features.insert(features.end(), 2, static_cast<float>(i % 3));
    }
    write_npy(*this, "data/features.npy", "<f4", "(30, 2)", features);
    write_npy(*this, "data/narrow.npy", "<f4", "(60, 1)", features);
    write_npy(*this, "data/labels.npy", "<i8", "(30,)", labels);
    labels.insert(labels.end(), labels.begin(), labels.end());
    write_npy(*this, "data/narrow-labels.npy", "<i8", "(60,)", labels);
  }
  void variant(const std::string& name, const std::vector<double>& recall) const {
    write_emulated(*this, "models/" + name, 4, 0, 1);
    const auto file = path() / "models" / name / "profile.json";
    auto profile = read_profile(file);
    FERMATA_CHECK(profile.ok());
    profile->model = name;
    profile->answers.recall.assign(recall.begin(), recall.end());
    if (!recall.empty()) profile->answers.accuracy = 0.5;
    FERMATA_CHECK(write_profile(*profile, file).ok());
  }
  std::string data(const std::string& file) const { return (path() / "data" / file).string(); }
  EngineOptions options() const {
    EngineOptions options = options_for(path() / "models");
    options.workers.executor = ExecutorKind::kEmulated;
    options.services = {service()};
    return options;
  }
  ServiceOptions service() const {
    VariantsOptions variants{.models = {"zero", "one"}, .penalty = {plan::PenaltyShape::kStep}};
    variants.evidence = EvidenceSource{data("features.npy"), data("labels.npy"), "", "", "", 3};
    return {.name = "app", .slo = Duration::seconds(3600), .variants = variants};
  }
};

std::string refusal(const EngineOptions& options) {
  return std::string(message(make_engine(options).status()));
}

Tensor row(std::vector<float> x) {
  const auto items = static_cast<int64_t>(x.size()) / 2;
  return floats("x", {items, 2}, std::move(x));
}

// A driver whose jobs' data is known before they come.
struct Hand {
  Hand() {
    Loader loader(options, executors);
    std::vector<std::shared_ptr<const Variant>> variants;
    for (const char* name : {"zero", "one"}) {
      variants.push_back((*loader.load(name, std::nullopt)).back());
      FERMATA_CHECK(driver.load(variants.back()).ok());
      driver.add(variants.back(), Duration::infinite());
    }
    auto index = make_evidence(options.services[0], variants[0].get(), nullptr, *executors[0]);
    FERMATA_CHECK(index.ok());
    evidence = *std::move(index);
    auto made =
        make_variants_service(options.services[0], variants, {}, evidence.get(), VariantId(99));
    FERMATA_CHECK(made.ok());
    service = *std::move(made);
  }
  std::shared_ptr<Route> route(std::shared_ptr<const VariantsService> of) const {
    auto route = std::make_shared<Route>();
    route->service = "app";
    route->variant = of->public_model;
    route->counters = std::make_shared<Counters>();
    route->gate = std::make_shared<Gate>(100);
    route->variants = of.get();
    route->composite = std::move(of);
    return route;
  }
  ReplyPart ask(const std::shared_ptr<const VariantsService>& of, std::vector<float> x,
                std::vector<policy::Evidence> by_item) {
    InferRequest request{.inputs = {row(std::move(x))}, .arrival = monotonic_now()};
    Admitted admitted = *admit(request, of->public_model->signature);
    std::promise<ReplyPart> done;
    auto job = std::make_shared<Job>(
        JobId(ids.fetch_add(1)), std::move(request),
        [&](ReplyPart part) { done.set_value(std::move(part)); }, route(of), std::move(admitted));
    FERMATA_CHECK(job->route().gate->enter(0) == Gate::Entry::kTaken);
    driver.learned(job, {by_item.begin(), by_item.end()});
    driver.submit(std::move(job));
    return done.get_future().get();
  }

  Folder folder;
  EngineOptions options = folder.options();
  std::vector<std::unique_ptr<ExecutorFactory>> executors = [this] {
    std::vector<std::unique_ptr<ExecutorFactory>> one;
    one.push_back(*make_executors(options.workers));
    return one;
  }();
  std::atomic<uint64_t> ids{1};
  Driver driver{{ids},
                *policy::make_scheduler("fermata"),
                0.9,
                [this] {
                  std::vector<Driver::NewWorker> one;
                  one.push_back({executors[0]->make()});
                  return one;
                }(),
                [](std::shared_ptr<Job>) { FERMATA_CHECK(false); }};
  std::unique_ptr<EvidenceModel> evidence;
  std::shared_ptr<const VariantsService> service;
};

std::vector<double> posterior(const ReplyPart& part) {
  return nlohmann::json::parse(part.why.posterior).get<std::vector<double>>();
}

TEST(VariantsServices, AnItemIsAnsweredAsItsDataSays) {
  Hand h;
  const ReplyPart zero = h.ask(h.service, {0, 0}, {{9, 0, 0}});
  const ReplyPart one = h.ask(h.service, {1, 1}, {{0, 9, 0}});
  ASSERT_TRUE(zero.status.ok() && one.status.ok());
  EXPECT_NEAR(posterior(zero)[0], 9.5 / 10.5, 1e-9);
  EXPECT_NEAR(posterior(one)[1], 9.5 / 10.5, 1e-9);
}

TEST(VariantsServices, WhatIsNotKnownOfAnItemChangesNothing) {
  Hand h;
  EXPECT_TRUE(h.ask(h.service, {1, 1, 1, 1}, {{0, 9, 0}}).status.ok());
}

// Of another process, that is. An answer is made of each item's.
TEST(VariantsServices, EvidenceIsOfAllItemsAndOfAllClasses) {
  const Hand h;
  const policy::Evidence sure = {9, 0, 0};
  EXPECT_TRUE(h.service->fits({sure, sure}, 2));
  EXPECT_FALSE(h.service->fits({}, 2));
  EXPECT_FALSE(h.service->fits({sure}, 2));
  EXPECT_FALSE(h.service->fits({sure, sure, sure}, 2));
  EXPECT_FALSE(h.service->fits({sure, policy::Evidence{9, 0}}, 2));
  EXPECT_FALSE(h.service->fits({sure, policy::Difficulty{}}, 2));
}

// The evidence is right more often than either variant, so it answers as soon as it is told; the
// first item has found the worker idle before.
TEST(VariantsServices, EvidenceThatKnowsBetterAnswersByItself) {
  Hand h;
  auto sure = std::make_shared<VariantsService>(*h.service);
  sure->info.short_circuit = 0.99;
  const ReplyPart reply = h.ask(sure, {0, 0, 1, 1}, {{9, 0, 0}, {0, 0, 9}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const std::vector<float> scores = values<float>(reply.outputs[0]);
  ASSERT_THAT(scores, SizeIs(6));
  EXPECT_NEAR(scores[5], 9.5 / 10.5, 1e-6);
}

TEST(VariantsServices, AReloadWithOtherOutputsTakesTheServiceAwayAndSaysWhy) {
  Folder folder;
  const auto engine = *make_engine(folder.options());
  const auto row_of = [&](const std::string& name) {
    for (const ModelStatus& row : engine->index()) {
      if (row.name == name) return row;
    }
    return ModelStatus();
  };
  EXPECT_EQ(row_of("app").state, ModelState::kReady);
  folder.write("models/one/config.pbtxt",
               "max_batch_size: 4\ninput { name: \"x\" data_type: TYPE_FP32 dims: 2 }\n"
               "output { name: \"y\" data_type: TYPE_FP32 dims: 7 }\n");
  ASSERT_TRUE(engine->load("one", std::nullopt).ok());
  EXPECT_EQ(row_of("app").state, ModelState::kUnavailable);
  EXPECT_THAT(row_of("app").reason, HasSubstr("'one' has other inputs or outputs than 'zero'"));
  const ReplyPart refused = call(*engine, {.service = "app", .inputs = {row({0, 0})}});
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(message(refused.status)), HasSubstr("other inputs or outputs"));
  folder.variant("one", {0.1, 0.8, 0.5});
  ASSERT_TRUE(engine->load("one", std::nullopt).ok());
  EXPECT_EQ(row_of("app").state, ModelState::kReady);
}

// Emulated variants give zeros: class 0, which a third of the examples are of.
TEST(VariantsServices, VariantsThatComeLaterAreTriedOutThen) {
  Folder folder;
  EngineOptions options = folder.options();
  options.services[0].variants->models.emplace_back("late");
  options.services[0].variants->labelled = {folder.data("features.npy"), folder.data("labels.npy")};
  folder.write("models/late/config.pbtxt", "not yet");
  const auto engine = *make_engine(options);
  folder.variant("late", {});
  ASSERT_TRUE(engine->load("late", std::nullopt).ok());
  const ReplyPart reply = call(*engine, {.service = "app", .inputs = {row({0, 0})}});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const auto alternatives = nlohmann::json::parse(reply.why.alternatives);
  ASSERT_THAT(alternatives, SizeIs(3));
  // Whether the evidence was there in time: of class 0, it is always right; else of all.
  const double accuracy = alternatives[2]["accuracy"];
  if (reply.why.posterior.empty()) {
    EXPECT_NEAR(accuracy, 1 / 3.0, 1e-9);
  } else {
    EXPECT_NEAR(accuracy, posterior(reply)[0], 1e-9);
  }
}

TEST(VariantsServices, EvidenceOfWhatRequestsDoNotBringIsAnErrorAtTheStart) {
  Folder folder;
  EngineOptions options = folder.options();
  options.services[0].variants->evidence->input = "y";
  EXPECT_THAT(refusal(options), HasSubstr("evidence.input is 'y', expected one of the inputs"));
  options = folder.options();
  options.services[0].variants->evidence->features = folder.data("narrow.npy");
  options.services[0].variants->evidence->labels = folder.data("narrow-labels.npy");
  EXPECT_THAT(refusal(options), HasSubstr("'x' of 'one' has 2 elements an item, its evidence 1"));
}

TEST(VariantsServices, TheProfileThatDoesNotSuitTheEvidenceIsNamed) {
  Folder folder;
  folder.variant("one", {0.5, 0.5});
  EngineOptions options = folder.options();
  folder.write("models/broken/config.pbtxt", "no configuration");
  options.services[0].variants->models = {"broken", "zero", "one"};
  EXPECT_THAT(refusal(options), HasSubstr("the profile of 'one' has 2 classes"));
}

// The registry of two plain models, one of them a variant of two services beside.
TEST(Registry, ServicesOfVariantsCountAmongTheirModels) {
  EngineOptions options;
  const auto add = [&](std::string name, double slo_s, std::vector<std::string> models) {
    ServiceOptions service{.name = std::move(name), .slo = Duration::from_seconds(slo_s)};
    service.variants = VariantsOptions{.models = std::move(models)};
    options.services.push_back(std::move(service));
  };
  add("both", 3, {"a", "b"});
  add("alone", 1, {"b"});
  Registry registry(options);
  for (uint32_t i = 0; i < 2; ++i) {
    auto variant = std::make_shared<Variant>();
    variant->id = VariantId(i);
    variant->model = i == 0 ? "a" : "b";
    variant->version = "1";
    variant->signature.inputs = {{.name = "x", .dims = {2}}};
    (void)registry.put(variant->model, {{variant}, 0});
  }
  EXPECT_EQ(registry.tightest_slo("a"), Duration::seconds(3));
  EXPECT_EQ(registry.tightest_slo("b"), Duration::seconds(1));
  EXPECT_TRUE(registry.tightest_slo("c").is_infinite());
  const auto routes = registry.routes();
  const auto asked = [&](const std::string& service, int times) {
    for (int i = 0; i < times; ++i) {
      (*routes->find(service, ""))->counters->count_end(Outcome::kOnTime, {});
    }
  };
  asked("both", 10);
  asked("alone", 3);
  asked("a", 1);
  EXPECT_THAT(registry.demand(), ElementsAre(std::pair("a", 6), std::pair("b", 8)));
}

}  // namespace
}  // namespace fermata::engine
