// C interface of the test harness (harness.cu). Every function returns a cudaError_t value unless it says otherwise.
#pragma once

#include "tilewright/gemm_4bit/args.h"
#include "tilewright/quantize/args.h"

namespace tilewright::test {

// engine 1: mma_m16n8k16, {mt, nt, kc, stages}. engine 0: simt, {mb, warps, 0, 0}.
struct TileInfo {
  int engine;
  int m, n, k, stages;
  int smem_bytes;
};

}  // namespace tilewright::test

extern "C" {
int tw_tile_count();
const char* tw_tile_name(int tile);
int tw_tile_info(int tile, tilewright::test::TileInfo* info);
int tw_gemm_4bit(int tile, const tilewright::Gemm4bitArgs* args, void* stream);
int tw_dequantize_4bit(const tilewright::Dequantize4bitArgs* args, void* stream);
int tw_quantize_4bit(const tilewright::Quantize4bitArgs* args, void* stream);
const char* tw_error_name(int error);
}
