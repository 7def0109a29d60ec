#include "binding_quantize.h"
#include "tilewright/quantize/dequantize_4bit.cuh"
#include "tilewright/quantize/quantize_4bit.cuh"

namespace tilewright::binding {

cudaError_t enqueue_quantize_4bit(const Quantize4bitArgs& args, cudaStream_t stream) {
  return quantize_4bit(args, stream);
}

cudaError_t enqueue_dequantize_4bit(const Dequantize4bitArgs& args, cudaStream_t stream) {
  return dequantize_4bit(args, stream);
}

cudaError_t load_a_kernel() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernels::dequantize_4bit_kernel<float>);
}

}  // namespace tilewright::binding
