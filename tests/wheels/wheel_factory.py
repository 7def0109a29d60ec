"""Makes small wheels, sound or with a planted fault. The library in them is compiled once a test session."""

from __future__ import annotations

import importlib.util
import json
import platform
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tilewright_codegen.render import specs_digest
from tilewright_codegen.wheelcheck.archive import record_hash

ROOT = Path(__file__).parents[2]
FLAGS = ["-std=c++17", "-Xcompiler=-fPIC,-fvisibility=hidden,-fno-exceptions,-fno-rtti,-fno-threadsafe-statics"]
DIST_INFO = "tilewright-0.1.0.dist-info"
GLIBC = platform.libc_ver()[1].split(".")
PLATFORM = f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{platform.machine()}"

ARCH = """\
schema: arch/1
name: sm{n}
cc: [8, {minor}]
gencode: sm_{n}
min_cuda: "11.0"
memory: gddr
group: g{n}
smem_optin_bytes: 101_376
engines: [simt, mma_m16n8k16]
sm_counts: [80]
status: assumed
"""
SPECS = {
    "archs/sm80.yaml": ARCH.format(n=80, minor=0),
    "archs/sm86.yaml": ARCH.format(n=86, minor=6),
    "families/gemm_4bit/family.yaml": """\
schema: family/1
name: gemm_4bit
op: gemm_4bit(Tensor a) -> Tensor
dtypes: [f16, bf16]
limits: {M: 1024, N: 1024, K: 1024, num_sms: 1024}
layers:
  - {name: tile, site: cpp, outcome: tile}
""",
    "families/gemm_4bit/tiles.yaml": """\
schema: tiles/1
engine: simt
tiles:
  - {id: simt-1, mb: 1, warps: 4}
---
schema: tiles/1
engine: mma_m16n8k16
tiles:
  - {id: 32x64-64, mt: 32, nt: 64, kc: 64, stages: 3, warps_m: 2, warps_n: 4}
""",
    "families/gemm_4bit/tile.yaml": """\
schema: layer/1
layer: tile
sections:
  - section: everything
    for: all
    basis: assumed
    rules:
      - {id: one-row, when: [M == 1], tile: simt-1}
      - {id: more-rows, tile: 32x64-64}
""",
    "budget.yaml": """\
schema: budget/1
wheel_bytes: 5_000_000
support_bytes: 100_000
families:
  - {family: gemm_4bit, total_bytes: 100_000, image_bytes: 50_000}
build: {full_cpu_seconds: 60, rule_change_seconds: 30}
""",
    "wheels.yaml": """\
schema: wheels/1
variants:
  - {name: all, archs: all, published: index, why: everybody}
  - {name: old, archs: [sm80], why: one arch}
""",
}
KERNELS = """\
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace tilewright {
namespace gemm_4bit { struct Tile_simt_1 {}; struct Tile_32x64_64 {}; }
template <class Tile, class T> struct Gemm4bitConfig {};
namespace kernels {
// Long enough that compression pays.
template <class Config> __global__ void simt_kernel(float* x) {
  float sum = x[threadIdx.x];
#pragma unroll
  for (int i = 0; i < 64; ++i) sum = sum * x[i] + x[2 * i + 1];
  x[threadIdx.x] = sum;
}
template <class Config> __global__ void mma_kernel(float* x) {
  float c[4] = {x[0], x[1], x[2], x[3]};
  unsigned a = threadIdx.x;
#pragma unroll
  for (int i = 0; i < 16; ++i)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a + i));
  x[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}
}  // namespace kernels
using namespace gemm_4bit;
template __global__ void kernels::simt_kernel<Gemm4bitConfig<Tile_simt_1, __half>>(float*);
template __global__ void kernels::simt_kernel<Gemm4bitConfig<Tile_simt_1, __nv_bfloat16>>(float*);
template __global__ void kernels::MMA<Gemm4bitConfig<Tile_32x64_64, __half>>(float*);
template __global__ void kernels::mma_kernel<Gemm4bitConfig<Tile_32x64_64, __nv_bfloat16>>(float*);
}  // namespace tilewright
"""


def cuda_root() -> Path | None:
    """The folder of the CUDA compiler that the build requirements bring; None without."""
    spec = importlib.util.find_spec("nvidia.cu13") if importlib.util.find_spec("nvidia") else None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return next((Path(folder) for folder in folders if (Path(folder) / "bin" / "nvcc").is_file()), None)


class Compiler:
    """Compiles the kernels once for each set of options."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self._objects: dict[tuple[str, ...], Path] = {}

    def object(self, *options: str, mma: str = "mma_kernel") -> Path:
        """The object file; `mma` names the kernel that stands for the mma engine with f16."""
        key = (*options, mma)
        if key not in self._objects:
            source = self.folder / f"kernels{len(self._objects)}.cu"
            source.write_text(KERNELS.replace("MMA", mma))
            target = source.with_suffix(".o")
            subprocess.run([self.root / "bin" / "nvcc", *FLAGS, *options, "-c", source, "-o", target], check=True)
            self._objects[key] = target
        return self._objects[key]

    def link(self, code: Path, text: str, *options: str) -> bytes:
        """A library of that device code and some C."""
        source, target = self.folder / "glue.c", self.folder / "library.so"
        source.write_text(text)
        cudart = self.root / "lib" / "libcudart_static.a"
        hidden = ["-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--exclude-libs,ALL"]
        subprocess.run(
            ["cc", *hidden, "-o", target, source, code, cudart, *options, "-ldl", "-lpthread", "-lrt"], check=True
        )
        return target.read_bytes()


GENCODE = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (80, 86)]
EXPORT = '__attribute__((visibility("default")))'


@dataclass
class Recipe:
    """What goes into a wheel. Each fault changes one part of a sound one."""

    specs: dict[str, str] = field(default_factory=lambda: dict(SPECS))
    nvcc: list[str] = field(default_factory=lambda: ["-compress-mode=size", *GENCODE])
    mma: str = "mma_kernel"
    glue: str = ""
    link: list[str] = field(default_factory=list)
    digest: str | None = None
    images: tuple[str, ...] = ("sm_80", "sm_86")
    metadata: str = (
        "Metadata-Version: 2.4\nName: tilewright\nVersion: 0.1.0\nSummary: s\nRequires-Python: >=3.10\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\nLicense-File: NOTICE\nRequires-Dist: torch>=2.10\n"
    )
    platform: str = PLATFORM
    version: str = "0.1.0"
    files: dict[str, bytes] = field(default_factory=dict)
    after_record: dict[str, bytes] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


Fault = Callable[[Recipe], None]


def make_wheel(compiler: Compiler, folder: Path, recipe: Recipe) -> Path:
    """Write the wheel of a recipe."""
    specs = folder / "specs"
    for name, text in recipe.specs.items():
        (specs / name).parent.mkdir(parents=True, exist_ok=True)
        (specs / name).write_text(text)
    digest = recipe.digest or specs_digest(specs)
    glue = f'{EXPORT} const char* tilewright_register_torch(void) {{ return "{digest}"; }}\n{recipe.glue}'
    library = compiler.link(compiler.object(*recipe.nvcc, mma=recipe.mma), glue, *recipe.link)
    tag = f"py3-none-{recipe.platform}"
    info = DIST_INFO.replace("0.1.0", recipe.version)
    members: dict[str, bytes] = {
        "tilewright/_native.so": library,
        "tilewright/images.json": _images(recipe.images),
        "tilewright_codegen/_data/csrc_templates/include/tilewright/gemm_4bit/args.h": b"//\n",
        "tilewright_codegen/_data/cmake/TilewrightFamilies.cmake": b"#\n",
        f"{info}/METADATA": recipe.metadata.replace("Version: 0.1.0", f"Version: {recipe.version}").encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{info}/licenses/LICENSE": b"text\n",
        f"{info}/licenses/NOTICE": b"text\n",
        **{f"tilewright_codegen/_data/specs/{name}": text.encode() for name, text in recipe.specs.items()},
        **recipe.files,
    }
    for name in recipe.drop:
        del members[name]
    record = "".join(f"{name},{record_hash(data)},{len(data)}\n" for name, data in members.items())
    members |= {f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode(), **recipe.after_record}
    wheel = folder / f"tilewright-{recipe.version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return wheel


def _images(images: tuple[str, ...]) -> bytes:
    held: Mapping[str, list[str]] = {image: ["simt-1", "32x64-64"] for image in images}
    return json.dumps({"schema": "images/1", "families": {"gemm_4bit": held}}).encode()


def empty_library(folder: Path, name: str) -> Path:
    """A library that exports nothing, to be needed by another."""
    target = folder / f"lib{name}.so"
    source = folder / f"{name}.c"
    source.write_text(f"int {name}_function(void) {{ return 1; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, source], check=True)
    return target
