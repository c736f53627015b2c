#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "cluster/lock/lease.h"
#include "cluster/options.h"

namespace fermata::cluster {

// The Lease of a Kubernetes' API server, by the service account of the pod. FAILED_PRECONDITION
// where it is not said where the server is; INVALID_ARGUMENT of files that cannot be read.
absl::StatusOr<std::unique_ptr<LeaseStore>> make_kubernetes_lease(const LeaseOptions& options);

}  // namespace fermata::cluster
