#pragma once

#include <cstdint>
#include <optional>

#include "plan/streams/stream_tables.h"

namespace fermata::plan {

// The optimum: the best division of the clients into one group a worker, by dynamic
// programming over the sets of clients: what n workers make of a set is the best of what
// some of them make of a part and the others of the rest.

constexpr uint32_t kExactStreamClients = 20;  // memory for 2^20 sets a level

// How many pairs of sets it looks at, about: 3^clients / 2 for each doubling of the workers.
double exact_stream_steps(uint32_t workers, uint32_t clients);

// At most kExactStreamClients clients.
StreamGroups exact_streams(const StreamTables& tables, uint32_t workers);

}  // namespace fermata::plan
