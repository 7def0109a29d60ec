// Arguments of the FP8 and NVFP4 ops as they come from the dispatcher.
#pragma once

#include "binding_tensor.h"
#include "tilewright/gemm_fp8/args.h"
#include "tilewright/gemm_nvfp4/args.h"

namespace tilewright::binding {

struct GemmFp8Inputs {
  View a{"a"}, b{"b"}, scale_a{"scale_a"}, scale_b{"scale_b"}, bias{"bias"};
  View group_ends{"group_ends"}, group_rows{"group_rows"};
  int64_t out_dtype = 0;
  bool fast_accum = false;
  bool static_weights = false;
};

// What the shapes of the arguments say.
struct GemmFp8Shape {
  int64_t rows = 0;  // of A, all groups together
  int64_t m = 0;     // of A, or of one group of A where they are masked
  int64_t n = 0, k = 0, groups = 1;
  Scaling scaling = Scaling::kTensor;
  Grouping grouping = Grouping::kNone;
};

struct GemmNvfp4Inputs {
  View a{"a"}, b{"b"}, scale_a{"scale_a"}, scale_b{"scale_b"}, global_a{"global_a"}, global_b{"global_b"}, bias{"bias"};
  int64_t out_dtype = 0;
  bool static_weights = false;  // no kernel of the family reads weights early
};

// Each check names the argument, its value and what is allowed; false means that the text is recorded.
bool check_gemm_fp8(const GemmFp8Inputs& in, GemmFp8Shape& shape);
bool check_gemm_fp8_grouped(const GemmFp8Inputs& in, GemmFp8Shape& shape);
bool check_gemm_nvfp4(const GemmNvfp4Inputs& in);
bool check_quantize_fp8(const View& x, int64_t granularity, int64_t fp8_type, const View& scale);
bool check_quantize_nvfp4(const View& x, const View& global_scale);

// The dtype of torch for the number of a result type, which has been checked.
int32_t result_dtype(int64_t number);

// Decides, launches and allocates the result.
bool run_gemm_fp8(GemmFp8Inputs& in, Owned& out);
bool run_gemm_fp8_grouped(GemmFp8Inputs& in, Owned& out);
bool run_gemm_nvfp4(GemmNvfp4Inputs& in, Owned& out);

bool run_quantize_fp8(View& x, int64_t granularity, int64_t fp8_type, View& scale, Owned& codes, Owned& scales);

struct QuantizedNvfp4 {
  Owned codes, scales, global_scale;
};
bool run_quantize_nvfp4(View& x, View& global_scale, QuantizedNvfp4& out);

}  // namespace tilewright::binding
