#pragma once

#include "engine/snapshot.h"
#include "serve/metric_families.h"

namespace fermata::serve {

// Of other hosts whose workers take part; nothing where there have been none.
void add_cluster(const engine::ClusterStatistics& cluster, Families& out);

}  // namespace fermata::serve
