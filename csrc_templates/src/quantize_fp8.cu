#include "binding_quantize.h"
#include "tilewright/quantize/quantize_fp8.cuh"
#include "tilewright/quantize/quantize_nvfp4.cuh"

namespace tilewright::binding {

cudaError_t enqueue_quantize_fp8(const QuantizeFp8Args& args, cudaStream_t stream) {
  return quantize_fp8(args, stream);
}

cudaError_t enqueue_quantize_nvfp4(const QuantizeNvfp4Args& args, cudaStream_t stream) {
  return quantize_nvfp4(args, stream);
}

}  // namespace tilewright::binding
