#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "load/transport.h"

namespace fermata::load {

// gRPC over a pool of connections. Requests are encoded once and sent as the
// same bytes again and again; replies are decoded only where somebody wants to
// know. One thread answers; the caller of send() writes.
class GrpcTransport : public Transport {
 public:
  GrpcTransport(std::string address, Listener& listener);  // address: HOST:PORT
  ~GrpcTransport() override;

  absl::StatusOr<std::vector<InputInfo>> inputs_of(const std::string& service,
                                                   const std::string& version) override;
  uint32_t prepare(const Question& question) override;
  void send(uint32_t question, const Sending& sending) override;
  void abandon() override;
  size_t connections() const override { return lanes_.size(); }

 private:
  struct Prepared {
    grpc::ByteBuffer request;
    bool want_outputs, explain;
  };
  // A connection of its own and how many requests are on it.
  struct Lane {
    explicit Lane(std::shared_ptr<grpc::Channel> c) : channel(std::move(c)), stub(channel) {}
    std::shared_ptr<grpc::Channel> channel;
    grpc::GenericStub stub;
    std::atomic<uint32_t> in_flight = 0;
  };
  struct Call {
    Sending sending;
    const Prepared* prepared;
    Lane* lane;
    std::list<Call>::iterator self;
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
  };

  Lane& open_lane();
  Lane& pick_lane();
  void complete();
  static Answer answer_of(Call& call);

  const std::string address_;
  Listener& listener_;
  std::deque<Prepared> prepared_;
  std::deque<Lane> lanes_;  // of the sending thread
  grpc::CompletionQueue queue_;
  std::mutex mutex_;
  std::list<Call> calls_;  // in flight; guarded by mutex_
  std::thread thread_;
};

}  // namespace fermata::load
