#include "gateway/conversation.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "gateway/addresses.h"

namespace fermata::gateway {
namespace {

using Headers = std::map<std::string, std::string>;

Time after(double s) { return Time() + Duration::from_seconds(s); }

void fill(envoy::service::ext_proc::v3::HttpHeaders& to, const Headers& headers) {
  for (const auto& [key, value] : headers) {
    auto& header = *to.mutable_headers()->add_headers();
    header.set_key(key);
    header.set_raw_value(value);
  }
}

ProcessingRequest asked(const Headers& headers = {}) {
  ProcessingRequest request;
  fill(*request.mutable_request_headers(), headers);
  return request;
}

ProcessingRequest answered(const std::string& status) {
  ProcessingRequest request;
  fill(*request.mutable_response_headers(), {{":status", status}});
  return request;
}

class AConversation : public testing::Test {
 protected:
  AConversation() {
    house_.slo = Duration::millis(100);
    house_.objectives["fast"] = Duration::millis(10);
    house_.picker.set_servers({"10.0.0.1:8000"});
  }
  // How a server that takes `seconds` has been seen to.
  void teach(double seconds) {
    for (int i = 0; i < 10; ++i) {
      Conversation one(house_);
      one.answer(asked(), after(i));
      one.answer(answered("200"), after(i + seconds));
    }
  }

  House house_;
};

TEST_F(AConversation, TheDestinationStandsInTheHeaderAndTheMetadata) {
  Conversation one(house_);
  const auto answer = one.answer(asked({{":path", "/v2/models/m/infer"}}), after(0));
  ASSERT_TRUE(answer && answer->has_request_headers());
  const auto& common = answer->request_headers().response();
  ASSERT_EQ(common.header_mutation().set_headers_size(), 1);
  EXPECT_EQ(common.header_mutation().set_headers(0).header().key(),
            "x-gateway-destination-endpoint");
  EXPECT_EQ(common.header_mutation().set_headers(0).header().raw_value(), "10.0.0.1:8000");
  EXPECT_TRUE(common.clear_route_cache());
  const auto& balancer = answer->dynamic_metadata().fields().at("envoy.lb").struct_value();
  EXPECT_EQ(balancer.fields().at("x-gateway-destination-endpoint").string_value(), "10.0.0.1:8000");
  EXPECT_EQ(house_.picker.under_way(), 1u);
  EXPECT_TRUE(one.answer(answered("200"), after(1))->has_response_headers());
  EXPECT_EQ(house_.picker.under_way(), 0u);
}

TEST_F(AConversation, WhoWouldBeLateIsShedWithTheReason) {
  teach(0.06);
  Conversation first(house_), second(house_), hasty(house_);
  EXPECT_TRUE(first.answer(asked(), after(20))->has_request_headers());
  const auto shed = second.answer(asked(), after(20));  // it would take twice 60 ms
  ASSERT_TRUE(shed->has_immediate_response());
  const auto& reply = shed->immediate_response();
  EXPECT_EQ(reply.status().code(), 429);
  EXPECT_EQ(reply.headers().set_headers(0).header().key(), "x-llm-d-request-dropped-reason");
  EXPECT_EQ(reply.headers().set_headers(0).header().raw_value(), "rejected-saturated");
  EXPECT_NE(reply.body().find("100 ms are left"), std::string::npos) << reply.body();
  EXPECT_FALSE(reply.has_grpc_status());
  const auto over_grpc = hasty.answer(
      asked({{"content-type", "application/grpc"}, {"grpc-timeout", "50m"}}), after(20));
  EXPECT_EQ(over_grpc->immediate_response().grpc_status().status(), 8u);
}

TEST_F(AConversation, TimesComeFromTheClientTheObjectiveOrTheDefault) {
  teach(0.06);
  const auto is_sent = [this](const Headers& headers) {
    Conversation before(house_), one(house_);
    before.answer(asked(), after(20));
    return one.answer(asked(headers), after(20))->has_request_headers();
  };
  EXPECT_FALSE(is_sent({}));
  EXPECT_TRUE(is_sent({{"grpc-timeout", "1S"}}));
  EXPECT_TRUE(is_sent({{"x-envoy-upstream-rq-timeout-ms", "500"}}));
  EXPECT_TRUE(is_sent({{"grpc-timeout", "500m"}, {"x-llm-d-inference-objective", "fast"}}));
  EXPECT_FALSE(is_sent({{"x-llm-d-inference-objective", "fast"}}));
}

TEST_F(AConversation, BodiesGoOnAsTheyAre) {
  Conversation one(house_);
  ProcessingRequest first = asked();
  first.mutable_protocol_config()->set_request_body_mode(
      envoy::service::ext_proc::v3::ProtocolConfiguration::FULL_DUPLEX_STREAMED);
  one.answer(first, after(0));
  ProcessingRequest body;
  body.mutable_request_body()->set_body("tensors");
  body.mutable_request_body()->set_end_of_stream(true);
  const auto answer = one.answer(body, after(0));
  const auto& back = answer->request_body().response().body_mutation().streamed_response();
  EXPECT_EQ(back.body(), "tensors");
  EXPECT_TRUE(back.end_of_stream());
  ProcessingRequest buffered;
  buffered.mutable_response_body()->set_body("tensors");
  EXPECT_FALSE(one.answer(buffered, after(0))->response_body().response().has_body_mutation());
}

TEST_F(AConversation, OnlyServersThatTheGatewayAllowsArePicked) {
  house_.picker.set_servers({"10.0.0.1:8000", "10.0.0.2:8000"});
  ProcessingRequest request = asked();
  auto& hint =
      (*request.mutable_metadata_context()->mutable_filter_metadata())["envoy.lb.subset_hint"];
  auto& subset = (*hint.mutable_fields())["x-gateway-destination-endpoint-subset"];
  subset.set_string_value("10.0.0.2:8000, 10.0.0.9:8000");
  Conversation one(house_), two(house_);
  EXPECT_EQ(one.answer(request, after(0))
                ->request_headers()
                .response()
                .header_mutation()
                .set_headers(0)
                .header()
                .raw_value(),
            "10.0.0.2:8000");
  subset.set_string_value("10.0.0.9:8000");
  EXPECT_EQ(two.answer(request, after(0))->immediate_response().status().code(), 503);
}

TEST_F(AConversation, NobodyIsAnsweredWhoOnlyObserves) {
  Conversation one(house_);
  ProcessingRequest request = asked();
  request.set_observability_mode(true);
  EXPECT_FALSE(one.answer(request, after(0)));
  EXPECT_FALSE(one.answer(ProcessingRequest(), after(0)));
}

TEST_F(AConversation, AClientThatGoesLeavesNothingUnderWay) {
  { Conversation(house_).answer(asked(), after(0)); }
  EXPECT_EQ(house_.picker.under_way(), 0u);
}

TEST(GrpcTimeout, IsWhatTheProtocolSays) {
  EXPECT_EQ(grpc_timeout("50m"), Duration::millis(50));
  EXPECT_EQ(grpc_timeout("2S"), Duration::seconds(2));
  EXPECT_EQ(grpc_timeout("1H"), Duration::seconds(3600));
  EXPECT_EQ(grpc_timeout("99999999u"), Duration::micros(99'999'999));
  EXPECT_TRUE(grpc_timeout("99999999H")->is_infinite());
  for (const char* wrong : {"", "m", "50", "-5m", "5x", "123456789m", "5.5m"}) {
    EXPECT_EQ(grpc_timeout(wrong), std::nullopt) << wrong;
  }
}

TEST(Addresses, OfANameAreThoseOfIt) {
  EXPECT_EQ(*addresses_of("127.0.0.1:80"), std::vector<std::string>{"127.0.0.1:80"});
  EXPECT_EQ(*addresses_of("[::1]:80"), std::vector<std::string>{"[::1]:80"});
  for (const char* wrong : {"", "host", ":80", "host:"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(addresses_of(wrong).status())) << wrong;
  }
}

}  // namespace
}  // namespace fermata::gateway
