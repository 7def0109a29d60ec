// Checks of single arguments. Each names the argument, its value and what is allowed; false means that the text is
// recorded.
#pragma once

#include "binding_tensor.h"
#include "tilewright/types.h"

namespace tilewright::binding {

// `view` may be absent.
bool same_device(const char* op, const View& anchor, const View& view);
bool expect_dtype(const char* op, const View& view, int32_t dtype);
bool expect_numel(const char* op, const View& view, int64_t numel, const char* meaning);

// The element type of activations: float16, bfloat16 or float32.
bool element_type(const char* op, const View& view, DType& out);

}  // namespace tilewright::binding
