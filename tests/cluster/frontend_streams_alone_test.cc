// What a frontend does with frames of streams and the connections of their clients, by itself.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/frontend/frontend_streams.h"
#include "engine/host/registry.h"

namespace fermata::cluster {
namespace {

// One stream, `cameras`, of one variant.
class FrontendStreamsAlone : public testing::Test {
 protected:
  FrontendStreamsAlone() {
    auto variant = std::make_shared<engine::Variant>();
    variant->model = "small";
    variant->version = "1";
    variant->signature = {.batches = true, .max_batch = 4};
    variant->signature.inputs = {{"x", DataType::kFp32, {2}, {2}}};
    engine::ServedModels models;
    models["small"].variants = {variant};
    const engine::EngineOptions options;
    engine::Registry registry(options);
    registry.put_all(std::move(models));
    const Offer offer{.index = {{"cameras", "1", engine::ModelState::kReady, ""}}};
    streams_.serve(*registry.routes()->catalog, {&offer});
  }
  static std::vector<engine::ServiceOptions> cameras() {
    engine::ServiceOptions made{.name = "cameras", .slo = Duration::seconds(60)};
    made.stream.emplace();
    made.stream->variants = {{"small", 20, 0.2, 0}};
    return {std::move(made)};
  }
  void frame(uint64_t owner) {
    engine::InferRequest request{.service = "cameras"};
    request.arrival = monotonic_now();
    request.frame = std::make_shared<policy::StreamFrame>();
    request.frame->client = "door";
    request.frame->owner = owner;
    engine::Reply reply = [](engine::ReplyPart) {};
    EXPECT_FALSE(streams_.route(JobId(1), request, reply));
  }
  void look(Duration later) {
    streams_.tell_operators(monotonic_now() + later, [](const auto&) { return Duration(); });
  }

  std::map<uint64_t, int> closed_;  // how often that was said, by connection
  std::optional<uint64_t> closes_;  // a connection that ends as its frame is held
  bool leaves_ = false;             // a client, as its frame is submitted
  HeldRequests requests_{1000};
  std::vector<JobId> submitted_, cancelled_;
  FrontendStreams streams_{cameras(),
                           requests_,
                           {.hold =
                                [this](JobId id, HeldRequests::Request frame) {
                                  requests_.add(id.value(), std::move(frame), 0,
                                                [](uint64_t, const auto&) {});
                                  if (closes_) streams_.close(*closes_);
                                },
                            .submit =
                                [this](JobId id, engine::InferRequest, engine::Reply) {
                                  submitted_.push_back(id);
                                  if (leaves_) requests_.cancel(id.value());
                                  EXPECT_TRUE(cancelled_.empty());
                                },
                            .cancel = [this](JobId id) { cancelled_.push_back(id); },
                            .say =
                                [this](uint32_t division, absl::FunctionRef<size_t(Asked&)> add) {
                                  EXPECT_EQ(division, 0u);
                                  Asked asked;
                                  add(asked);
                                  for (const uint64_t owner : asked.closed()) ++closed_[owner];
                                }}};
};

using Closed = std::map<uint64_t, int>;

TEST_F(FrontendStreamsAlone, AConnectionThatClosesIsToldOnce) {
  frame(3);
  frame(3);
  frame(4);
  streams_.close(5);  // has sent no frame
  EXPECT_EQ(closed_, Closed());
  streams_.close(3);
  streams_.close(3);
  EXPECT_EQ(closed_, (Closed{{3, 1}}));
}

// Nobody says again that it has closed.
TEST_F(FrontendStreamsAlone, AConnectionThatClosesBeforeItsFrameIsHeldIsTold) {
  closes_ = 3;
  frame(3);
  closes_.reset();
  frame(4);
  look(Duration::seconds(50));
  EXPECT_EQ(closed_, Closed());
  look(Duration::seconds(70));
  EXPECT_EQ(closed_, (Closed{{3, 1}, {4, 1}}));
  frame(4);  // it was only silent
  streams_.close(4);
  EXPECT_EQ(closed_, (Closed{{3, 1}, {4, 2}}));
}

// Between who held it and the variant that runs it.
TEST_F(FrontendStreamsAlone, AFrameThatIsCancelledWhileItIsHandedOnIsCancelledThen) {
  Directed said;
  said.set_key(1);
  said.set_service("small");
  frame(3);
  leaves_ = true;
  streams_.directed(said);
  EXPECT_EQ(submitted_, std::vector{JobId(1)});
  EXPECT_EQ(cancelled_, std::vector{JobId(1)});
  cancelled_.clear();
  leaves_ = false;
  frame(3);
  streams_.directed(said);
  streams_.directed(said);  // it has ended
  EXPECT_EQ(submitted_.size(), 2u);
  EXPECT_TRUE(cancelled_.empty());
}

}  // namespace
}  // namespace fermata::cluster
