#pragma once

#include "engine/snapshot.h"
#include "grpc_service.pb.h"

namespace fermata::serve {

// One row of ModelStatistics; every member is present, as clients expect.
void fill_statistics(const engine::ServiceStatistics& from, inference::ModelStatistics& to);

}  // namespace fermata::serve
