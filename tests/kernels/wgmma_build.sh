#!/bin/sh
# Builds the wgmma harness (libtilewright_wgmma.so) for sm_90a into DIR, JOBS translation units at a time.
# usage: wgmma_build.sh DIR [JOBS]    NVCC names the compiler, DEFINES adds flags such as -DTILEWRIGHT_BF16_ONLY.
set -eu
dir=$1
jobs=${2:-2}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$dir"
export nvcc="${NVCC:-nvcc}" dir here
export flags="-std=c++17 -O3 -I$here/../../csrc_templates/include -gencode arch=compute_90a,code=sm_90a -cudart static
  ${DEFINES:-} -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
printf '%s\n' 0 1 2 3 | xargs -P "$jobs" -I {} sh -c '$nvcc $flags -Xptxas -v -DTILEWRIGHT_GROUP={} \
  -c "$here/wgmma_harness.cu" -o "$dir/wgmma_{}.o" 2>"$dir/wgmma_{}.log" || { cat "$dir/wgmma_{}.log"; exit 1; }'
$nvcc $flags -x cu -c "$here/wgmma_entry.cpp" -o "$dir/wgmma_entry.o"
$nvcc $flags -shared "$dir"/wgmma_[0-3].o "$dir/wgmma_entry.o" -o "$dir/libtilewright_wgmma.so"
if grep -hE 'C75[0-9]{2}|[1-9][0-9]* bytes spill' "$dir"/wgmma_[0-3].log; then
  echo 'wgmma_build.sh: spills or serialised wgmma, see the lines above' >&2
fi
