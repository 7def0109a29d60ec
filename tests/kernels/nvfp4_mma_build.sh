#!/bin/sh
# Builds the gemm_nvfp4 mma_block_scaled harness (libtilewright_nvfp4_mma.so) into DIR and looks at its machine code.
# usage: nvfp4_mma_build.sh DIR [ARCH]    NVCC and CUOBJDUMP name the tools; ARCH is 120a unless given.
set -eu
dir=$1
arch=${2:-120a}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
mkdir -p "$dir"
library="$dir/libtilewright_nvfp4_mma.so"
${NVCC:-nvcc} -std=c++17 -O3 -I"$here/../../csrc_templates/include" -gencode "arch=compute_$arch,code=sm_$arch" \
  -cudart static -Xcompiler=-fPIC,-Wall,-Wextra,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics -Xptxas -v \
  -shared "$here/nvfp4_mma_harness.cu" -o "$library" 2>"$dir/nvfp4_mma.log" || { cat "$dir/nvfp4_mma.log"; exit 1; }
if grep -E '[1-9][0-9]* bytes spill' "$dir/nvfp4_mma.log"; then
  echo 'nvfp4_mma_build.sh: spills, see the lines above' >&2
fi
if ! ${CUOBJDUMP:-cuobjdump} -sass "$library" | grep -q 'OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X'; then
  echo 'nvfp4_mma_build.sh: no block-scaled multiplication in the machine code' >&2
  exit 1
fi
