// The names of the generated selector and launch table that the binding uses.
#pragma once

#include "tilewright/generated/gemm_4bit.h"

namespace tilewright::binding {

using namespace tilewright::gemm_4bit;  // NOLINT: the binding is the one user of the generated namespace

}  // namespace tilewright::binding
