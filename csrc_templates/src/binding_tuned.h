// A table of choices measured on one kind of card, which stands in front of the rules while it is loaded.
#pragma once

#include "binding_generated.h"

namespace tilewright::binding {

// One bucket: a weight with all that the kernels distinguish, and the values of M from m_min to m_max. `choice` is a
// tile or kForceFallback. Mirrored by python/tilewright/_tuned.py.
struct TunedEntry {
  int64_t n, k, m_min, m_max;
  int32_t dtype, quant_type, layout, blocksize, choice;
};

// Puts the table's choice for the problem into `decision`; false when there is no table, the device is of another
// kind, no bucket holds the problem, or the tile cannot run it. Reads only: no allocation, no call of the driver, so
// it may run while a stream is captured.
bool tuned_decision(Arch arch, const Problem& problem, Decision& decision);

}  // namespace tilewright::binding
