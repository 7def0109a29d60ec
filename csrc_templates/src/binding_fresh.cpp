#include "binding_fresh.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tilewright::binding {

namespace {

// Read from the environment once: 0 not yet, 1 no, 2 yes.
bool always_fresh() {
  static std::atomic<int> known{0};
  int state = known.load(std::memory_order_relaxed);
  if (state == 0) {
    const char* text = std::getenv("TILEWRIGHT_FRESH_WEIGHTS");
    state = text != nullptr && std::strcmp(text, "1") == 0 ? 2 : 1;
    known.store(state, std::memory_order_relaxed);
  }
  return state == 2;
}

}  // namespace

bool fresh_weights(bool static_weights, bool copied) { return !static_weights || copied || always_fresh(); }

}  // namespace tilewright::binding
