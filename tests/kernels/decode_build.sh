#!/bin/sh
# Builds the decode harness (libtilewright_decode.so) for sm_90a into DIR, JOBS translation units at a time.
# usage: decode_build.sh DIR [JOBS]    NVCC names the compiler, DEFINES adds flags such as -DTILEWRIGHT_BF16_ONLY.
set -eu
dir=$1
jobs=${2:-2}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$dir"
export nvcc="${NVCC:-nvcc}" dir here
export flags="-std=c++17 -O3 -I$here/../../csrc_templates/include -gencode arch=compute_90a,code=sm_90a -cudart static
  ${DEFINES:-} -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"
printf '%s\n' 0 1 2 3 | xargs -P "$jobs" -I {} sh -c '$nvcc $flags -Xptxas -v -DTILEWRIGHT_GROUP={} \
  -c "$here/decode_harness.cu" -o "$dir/decode_{}.o" 2>"$dir/decode_{}.log" || { cat "$dir/decode_{}.log"; exit 1; }'
$nvcc $flags -x cu -c "$here/decode_entry.cpp" -o "$dir/decode_entry.o"
$nvcc $flags -shared "$dir"/decode_[0-3].o "$dir/decode_entry.o" -o "$dir/libtilewright_decode.so"
if grep -hE '[1-9][0-9]* bytes spill' "$dir"/decode_[0-3].log; then
  echo 'decode_build.sh: spills, see the lines above' >&2
fi
