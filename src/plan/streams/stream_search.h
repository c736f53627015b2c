#pragma once

#include <cstdint>

#include "base/random.h"
#include "plan/streams/stream_tables.h"

namespace fermata::plan {

// A good division of the clients into groups, one for a worker, where a group's variant is
// the most accurate that can serve it. First as many clients as can be found room for, then,
// without dropping one, accuracy: simulated annealing over clients that change the group or
// places with each other, the unmapped ones too. `start` must be possible; it never serves
// fewer. Looks at max_steps moves for accuracy and at most half as many for room; a move
// takes O(variants).
StreamGroups search_streams(const StreamTables& tables, uint32_t workers, const StreamGroups& start,
                            uint64_t max_steps, Random& random);

}  // namespace fermata::plan
