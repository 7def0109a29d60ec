// Weights that a kernel may still be writing when a product starts.
#pragma once

namespace tilewright::binding {

// Whether the launch of a product has to wait for all ahead of it before it reads its weight: unless the caller says
// that nothing in flight writes to it. `copied`: this call made a copy of a part of it, which is in flight.
// TILEWRIGHT_FRESH_WEIGHTS=1 in the environment makes every launch wait.
bool fresh_weights(bool static_weights, bool copied);

}  // namespace tilewright::binding
