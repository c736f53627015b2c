#pragma once

#include <cstdint>
#include <string>

#include "base/document.h"
#include "cluster/options.h"
#include "engine/options.h"

namespace fermata::serve {

// HOST:PORT, of IPv6 [HOST]:PORT; false: it is something else.
bool read_address(const std::string& text, std::string& host, uint16_t& port);

// `cluster` of fermata.yaml; paths as they stand there.
cluster::Options cluster_options(Reader reader, const engine::WorkerOptions& workers);

}  // namespace fermata::serve
