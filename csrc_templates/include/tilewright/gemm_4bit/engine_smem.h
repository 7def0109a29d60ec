// smem_bytes<Tile>() for every engine of the family: the formulas, gathered.
#pragma once

#include "tilewright/gemm_4bit/decode_plan.h"
#include "tilewright/gemm_4bit/smem.h"
#include "tilewright/gemm_4bit/wgmma_smem.h"
