#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "model/labels.h"
#include "model/profile.h"
#include "model/signature.h"
#include "model_config.pb.h"
#include "policy/service.h"

namespace fermata::engine {

// What a worker needs for a variant: always, and on top of it while it runs. MiB.
struct Memory {
  double static_mb = 0, dynamic_mb = 0;
};

// A loaded model version: immutable; requests in flight keep theirs alive while
// a reload puts another in its place.
struct Variant {
  VariantId id;
  std::string model, version;  // version: a positive decimal number
  std::string file;            // the ONNX file; of a dynamic network, its first stage
  VariantId weights;  // widths of one dynamic network share those of one of them; none: its own
  inference::ModelConfig config;  // completed from the file
  Signature signature;
  bool tried = false;              // it has run on made-up inputs, or on zeros
  Labels labels;                   // of its outputs' classes
  std::vector<std::string> notes;  // settings that are not followed, why it does not batch
  Profile profile;                 // beside the model, or measured when it was loaded
  // The same on workers of several types, by type, `profile` being the first's; empty where all are
  // alike.
  std::vector<Profile> profile_by_type;
  Memory memory;  // the most of any profile; static at least what the files take

  VariantId loads() const { return weights.is_none() ? id : weights; }
  const Profile& profile_on(uint32_t worker_type) const {
    return profile_by_type.empty() ? profile : profile_by_type[worker_type];
  }
};

// What a client calls: a model under a name of its own.
struct Service {
  std::string name, model;
  std::vector<std::shared_ptr<const Variant>> versions;  // ready ones, ascending
  std::string trouble;  // why a service of several variants is not ready; else empty
  // Of one that several models answer what decisions know of them, without keys; else null.
  std::shared_ptr<const policy::ServiceInfo> info;
};

// A row of the repository index.
enum class ModelState : uint8_t { kUnknown, kReady, kUnavailable, kLoading, kUnloading };
std::string_view name(ModelState state);  // "READY"
struct ModelStatus {
  std::string name, version;  // version empty where none could be read
  ModelState state = ModelState::kUnknown;
  std::string reason;  // why not READY
};

// All services at one moment; a change makes a new catalog. Lookups O(log n).
class Catalog {
 public:
  std::vector<std::shared_ptr<const Service>> services;  // by name

  const Service* find(std::string_view service) const;
  // NOT_FOUND names what there is; UNAVAILABLE where no version is ready.
  // `version` empty: the newest.
  absl::StatusOr<std::shared_ptr<const Variant>> find(std::string_view service,
                                                      std::string_view version) const;
};

}  // namespace fermata::engine
