// The names of the generated selectors and launch tables that the binding uses: those of gemm_4bit as they are, those
// of the other families by their namespace.
#pragma once

#include "tilewright/generated/gemm_4bit.h"
#include "tilewright/generated/gemm_fp8.h"
#include "tilewright/generated/gemm_nvfp4.h"

namespace tilewright::binding {

using namespace tilewright::gemm_4bit;  // NOLINT: the binding is the one user of the generated namespace

}  // namespace tilewright::binding
