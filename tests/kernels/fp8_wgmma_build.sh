#!/bin/sh
# Builds the gemm_fp8 wgmma harness (libtilewright_fp8.so) for sm_90a into DIR, JOBS translation units at a time.
# usage: fp8_wgmma_build.sh DIR [JOBS]    NVCC names the compiler.
set -eu
dir=$1
jobs=${2:-2}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$dir"
export nvcc="${NVCC:-nvcc}" dir here
export flags="-std=c++17 -O3 -I$here/../../csrc_templates/include -gencode arch=compute_90a,code=sm_90a -cudart static
  -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics
  -diag-suppress=177"
printf '%s\n' ${FP8_GROUPS:-0 1 2 3} | xargs -P "$jobs" -I {} sh -c '$nvcc $flags -Xptxas -v -DTILEWRIGHT_GROUP={} \
  -c "$here/fp8_wgmma_harness.cu" -o "$dir/fp8_{}.o" 2>"$dir/fp8_{}.log" || { cat "$dir/fp8_{}.log"; exit 1; }'
$nvcc $flags -x cu -c "$here/fp8_wgmma_entry.cpp" -o "$dir/fp8_entry.o"
$nvcc $flags -shared "$dir"/fp8_[0-3].o "$dir/fp8_entry.o" -o "$dir/libtilewright_fp8.so"
if grep -hE 'C75[0-9]{2}|[1-9][0-9]* bytes spill' "$dir"/fp8_[0-3].log; then
  echo 'fp8_wgmma_build.sh: spills or serialised wgmma, see the lines above' >&2
fi
