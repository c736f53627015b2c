#pragma once

#include "base/document.h"
#include "cluster/options.h"
#include "engine/options.h"

namespace fermata::serve {

// `cluster` of fermata.yaml; paths as they stand there.
cluster::Options cluster_options(Reader reader, const engine::WorkerOptions& workers);

}  // namespace fermata::serve
