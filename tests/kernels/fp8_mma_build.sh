#!/bin/sh
# Builds the gemm_fp8 mma.sync and decode harness (libtilewright_fp8_mma.so) into DIR, JOBS translation units at a time.
# usage: fp8_mma_build.sh DIR [JOBS [ARCH]]    NVCC names the compiler; ARCH is 90a unless given.
set -eu
dir=$1
jobs=${2:-2}
arch=${3:-90a}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$dir"
export nvcc="${NVCC:-nvcc}" dir here
export flags="-std=c++17 -O3 -I$here/../../csrc_templates/include -gencode arch=compute_$arch,code=sm_$arch -cudart static
  -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
printf '%s\n' 0 1 2 3 | xargs -P "$jobs" -I {} sh -c '$nvcc $flags -Xptxas -v -DTILEWRIGHT_GROUP={} \
  -c "$here/fp8_mma_harness.cu" -o "$dir/fp8_mma_{}.o" 2>"$dir/fp8_mma_{}.log" || { cat "$dir/fp8_mma_{}.log"; exit 1; }'
$nvcc $flags -x cu -c "$here/fp8_mma_entry.cpp" -o "$dir/fp8_mma_entry.o"
$nvcc $flags -shared "$dir"/fp8_mma_[0-3].o "$dir/fp8_mma_entry.o" -o "$dir/libtilewright_fp8_mma.so"
if grep -hE '[1-9][0-9]* bytes spill' "$dir"/fp8_mma_[0-3].log; then
  echo 'fp8_mma_build.sh: spills, see the lines above' >&2
fi
