// Whether a launch waits before it reads its weight: a line a case.
#include <cstdio>

#include "binding_fresh.cpp"

int main() {
  using tilewright::binding::fresh_weights;
  std::printf("%d told nothing\n", fresh_weights(false, false));
  std::printf("%d static\n", fresh_weights(true, false));
  std::printf("%d static, copied\n", fresh_weights(true, true));
  std::printf("%d copied\n", fresh_weights(false, true));
}
