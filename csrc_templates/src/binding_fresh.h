// Weights that a kernel may still be writing when a product starts.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "binding_tensor.h"

namespace tilewright::binding {

// Memory that a kernel writes.
struct Written {
  const void* data;
  int64_t bytes;
};

// This thread launches a kernel on `stream` that writes what a product may take as its weight. The launch is an ordinary one:
// what was noted of the same stream is there by the time it starts, and is forgotten.
void note_written(void* stream, std::initializer_list<Written> parts);

// As note_written, for a product: its successors may start while it runs, and it may do so while those before it run, so
// nothing is forgotten.
void note_result(void* stream, Written result);

// Whether one of `views` was noted, or the environment takes every weight for freshly written (TILEWRIGHT_FRESH_WEIGHTS=1).
// What was noted is then forgotten: the caller's launch waits for all ahead of it.
bool take_fresh(std::initializer_list<const View*> views);

}  // namespace tilewright::binding
