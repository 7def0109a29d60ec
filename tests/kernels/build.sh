#!/bin/sh
# Builds the kernel test harness (libtilewright_kernels.so) and the sanitizer program into DIR.
# usage: build.sh DIR [ARCH]    ARCH as in sm_ARCH, default 90a. NVCC names the compiler.
set -eu
dir=$1
arch=${2:-90a}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
include=$here/../../csrc_templates/include
mkdir -p "$dir"
flags="-std=c++17 -O3 -lineinfo -I$include -gencode arch=compute_$arch,code=sm_$arch -cudart static
  -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
${NVCC:-nvcc} $flags -Xptxas -v -c "$here/harness.cu" -o "$dir/harness.o" 2>"$dir/ptxas.log"
${NVCC:-nvcc} $flags -shared "$dir/harness.o" -o "$dir/libtilewright_kernels.so"
${NVCC:-nvcc} $flags "$here/sanitize.cu" "$dir/harness.o" -o "$dir/sanitize"
