#include "tensor_memory.h"

namespace tilewright::emulator {

struct TensorMemory {
  int allocated = 0;
};

void begin_tensor_memory(Block&) {}
void end_tensor_memory(Block&) {}

}  // namespace tilewright::emulator
