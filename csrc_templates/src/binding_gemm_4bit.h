// Arguments of tilewright::gemm_4bit and tilewright::dequantize_4bit as they come from the dispatcher.
#pragma once

#include "binding_checks.h"
#include "binding_generated.h"
#include "binding_tensor.h"

namespace tilewright::binding {

// The packed weight of logical shape [n, k] with everything that is needed to dequantise it. Codes in a tensor of three
// dimensions are prepacked: [n / 16, k / 64, 512].
struct Weight {
  View b{"b"}, absmax{"absmax"}, nested_absmax{"nested_absmax"}, nested_code{"nested_code"}, offset{"offset"};
  int64_t n = 0, k = 0, blocksize = 0, quant_type = 0;

  WeightLayout layout() const { return b.dim == 3 ? WeightLayout::kPrepacked : WeightLayout::kPacked; }
};

struct Gemm4bitInputs {
  View a{"a"}, bias{"bias"};
  Weight weight;
  bool static_weights = false;
};

// Copies that make an argument contiguous and aligned; they live as long as the launch.
struct WeightCopies {
  Owned b, absmax, nested_absmax, nested_code, offset;
};

// Each check names the argument, its value and what is allowed; false means that the text is recorded.
bool check_weight(const char* op, const Weight& weight);
bool check_gemm_4bit(const Gemm4bitInputs& in);
bool make_dense_weight(Weight& weight, WeightCopies& copies);

// Decides, launches and allocates the result.
bool run_gemm_4bit(Gemm4bitInputs& in, Owned& out);

// Writes the dequantised [n, k] weight into `out`, a dense tensor of `dtype` on the current device.
bool launch_dequantize_4bit(const Weight& weight, DType dtype, void* out, void* stream);

// The three results of quantize_4bit for nf4 and fp4; the offset is empty.
struct Quantized {
  Owned packed, absmax, offset;
};
bool run_quantize_4bit(View& weight, int64_t blocksize, int64_t quant_type, Quantized& out);
bool run_dequantize_4bit(Weight& weight, int64_t dtype, Owned& out);

}  // namespace tilewright::binding
