// A word for functions that host and device share, usable where there is no CUDA compiler.
#pragma once

#if defined(__CUDACC__)
#define TILEWRIGHT_HOST_DEVICE __host__ __device__
#else
#define TILEWRIGHT_HOST_DEVICE
#endif
