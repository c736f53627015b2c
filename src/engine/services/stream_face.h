#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/catalog.h"
#include "engine/options.h"
#include "engine/request.h"

namespace fermata::engine {

// Those of kind `stream`, which are made on top of the others.
std::vector<ServiceOptions> take_streams(std::vector<ServiceOptions>& services);

// What clients see of a stream service, and what the tensors of their frames tell. It knows no
// client: who has the tensors has one, and so has who decides about them. Immutable.
class StreamFace {
 public:
  // NOT_FOUND or UNAVAILABLE where a variant is not served.
  static absl::StatusOr<StreamFace> make(const ServiceOptions& options, const Catalog& catalog);
  // What clients see of one that is not served, with why: what its variants say, else `why`.
  static std::shared_ptr<const Service> waiting(const ServiceOptions& options,
                                                const Catalog& catalog, std::string why = "");

  const std::string& name() const { return service_->name; }
  // Its largest variant, under its own name.
  const std::shared_ptr<const Service>& service() const { return service_; }
  const std::optional<Duration>& slo() const { return slo_; }
  size_t variants() const { return variants_.size(); }
  const std::string& variant(size_t number) const { return variants_[number].service; }

  // Whether a variant takes the request's tensors, as far as their shapes tell.
  bool fits(const InferRequest& request, size_t variant) const;
  // Into the request's frame: its bytes, and its size where the client has not told it and one
  // variant alone takes such tensors.
  void read_tensors(InferRequest& request) const;
  // One without a frame goes to the variant that it fits; where several do, to the smallest.
  void pass_on(InferRequest& request) const;
  // A reply as one of this service.
  void sign(ReplyPart& reply) const;
  // What a client is told of whom nothing is known: the smallest size. To a message of `arrival`.
  std::shared_ptr<const StreamReply> reply_to_stranger(Time arrival) const;
  // Of a message that no variant runs: it needs none, or why not.
  ReplyPart ended(absl::Status status, std::string id,
                  std::shared_ptr<const StreamReply> told) const;

 private:
  StreamFace() = default;
  std::optional<size_t> fitting(const InferRequest& request) const;

  std::vector<StreamOptions::Variant> variants_;
  std::vector<Signature> signatures_;  // by variant
  std::optional<Duration> slo_;
  std::shared_ptr<const Service> service_;
};

}  // namespace fermata::engine
