// The quantise and dequantise kernels behind functions, so that host files need no device code.
#pragma once

#include <cuda_runtime_api.h>

#include "tilewright/quantize/args.h"
#include "tilewright/quantize/fp8_args.h"

namespace tilewright::binding {

cudaError_t enqueue_quantize_4bit(const Quantize4bitArgs& args, cudaStream_t stream);
cudaError_t enqueue_dequantize_4bit(const Dequantize4bitArgs& args, cudaStream_t stream);
cudaError_t enqueue_quantize_fp8(const QuantizeFp8Args& args, cudaStream_t stream);
cudaError_t enqueue_quantize_nvfp4(const QuantizeNvfp4Args& args, cudaStream_t stream);

// Loads the code of one kernel on the current device, and runs nothing. An error says that the device takes none.
cudaError_t load_a_kernel();

}  // namespace tilewright::binding
