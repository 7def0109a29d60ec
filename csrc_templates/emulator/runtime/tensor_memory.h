// Tensor memory of a block.
#pragma once

#include "world.h"

namespace tilewright::emulator {

void begin_tensor_memory(Block& block);
// Ends the launch when columns are still allocated.
void end_tensor_memory(Block& block);

}  // namespace tilewright::emulator
