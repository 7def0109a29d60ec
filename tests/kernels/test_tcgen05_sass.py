"""Machine code of every tcgen05 tile: the instructions its fields promise, and no others; nothing spilled."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilewright_codegen.resources import is_legal
from tilewright_codegen.tree import load_tree

from .tcgen05_tiles import TILES, PairTile

ROOT = Path(__file__).parents[2]
INCLUDE = ROOT / "csrc_templates" / "include"
ARCHS = ("100f", "103a", "107a", "110f")
ELEMENTS = ("__nv_bfloat16", "__half", "float")
FUNCTION = re.compile(r"^\s*Function : (\S+)", re.MULTILINE)
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z].*?);", re.MULTILINE)


@dataclass(frozen=True)
class Code:
    """Instructions of one kernel, operands included, and the compiler's report about it."""

    instructions: list[str]
    report: str

    def count(self, pattern: str) -> int:
        return sum(re.match(pattern, text) is not None for text in self.instructions)


def tool(name: str) -> str | None:
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None else list(spec.submodule_search_locations or [])
    folders = [str(Path(root) / "cu13" / "bin") for root in roots]
    return shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))


def tiles_of(arch: str) -> list[PairTile]:
    """The tiles of a target; sm_110 takes those of the portable family baseline."""
    return [tile for tile in TILES if ("100f" if arch == "110f" else arch) in tile.targets]


def struct_of(tile: PairTile) -> str:
    return f"Tile_{tile.id.replace('-', '_')}"


def source_of(arch: str) -> str:
    """One translation unit with every tile of the target, each with one of the output types."""
    lines = [f'#include "tilewright/{family}/{header}"' for family in ("gemm_fp8", "gemm_nvfp4")
             for header in ("config.h", "tcgen05.cuh")]  # fmt: skip
    for index, tile in enumerate(tiles_of(arch)):
        name, stem = struct_of(tile), "GemmNvfp4" if tile.scaled else "GemmFp8"
        operands = "Nvfp4Operands" if tile.scaled else "Fp8Operands"
        plan = f"tilewright::tcgen05::Plan<{name}, tilewright::tcgen05::{operands}>"
        config = f"tilewright::{stem}Config<{name}, {ELEMENTS[index % len(ELEMENTS)]}>"
        lines += [
            tile.struct(name),
            f"static_assert({plan}::kBytes == {tile.smem_bytes()});",
            f"static_assert({plan}::kColumns == {tile.tmem_columns()});",
            f"template cudaError_t tilewright::{tile.family}::EngineLauncher<tilewright::Engine::kTcgen05>::"
            f"launch<{config}>(const tilewright::{stem}Args&, cudaStream_t);",
        ]
    return "\n".join([*lines, ""])


def included(source: str) -> set[Path]:
    """The project's headers that a source includes, whether itself or through another."""
    found: set[Path] = set()
    waiting = [source]
    while waiting:
        for name in re.findall(r'#include "(tilewright/[^"]+)"', waiting.pop()):
            header = INCLUDE / name
            if header not in found:
                found.add(header)
                waiting.append(header.read_text())
    return found


def compiled(arch: str, folder: Path) -> dict[str, Code]:
    """Code of each tile's kernel. The listing is kept in `folder` under a digest of all that goes into it."""
    nvcc, cuobjdump, nvdisasm = (tool(name) for name in ("nvcc", "cuobjdump", "nvdisasm"))
    if nvcc is None or cuobjdump is None or nvdisasm is None:
        pytest.skip("needs nvcc, cuobjdump and nvdisasm of CUDA 13.5")
    digest = hashlib.sha256(source_of(arch).encode())
    for header in sorted(included(source_of(arch))):
        digest.update(header.read_bytes())
    digest.update(Path(nvcc).read_bytes())
    listing, report = (folder / f"{arch}-{digest.hexdigest()[:16]}.{kind}" for kind in ("sass", "log"))
    if not (listing.exists() and report.exists()):
        for old in folder.glob(f"{arch}-*"):
            old.unlink()
        source, binary = folder / f"{arch}.cu", folder / f"{arch}.cubin"
        source.write_text(source_of(arch))
        gencode = f"arch=compute_{arch},code=sm_{arch}"
        command = [nvcc, "-std=c++17", "-O3", "-Xptxas", "-v", f"-I{INCLUDE}", "-gencode", gencode, "-cubin"]
        done = subprocess.run([*command, source, "-o", binary], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        path = str(Path(nvdisasm).parent)
        environment = {**os.environ, "NVDISASM_PATH": path, "PATH": path}
        dump: list[str | Path] = [cuobjdump, "--dump-sass", binary]
        text = subprocess.run(dump, check=True, capture_output=True, text=True, env=environment).stdout
        listing.write_text(text)
        report.write_text(done.stderr)
    return codes_of(arch, listing.read_text(), report.read_text())


def codes_of(arch: str, listing: str, report: str) -> dict[str, Code]:
    pieces = FUNCTION.split(listing)[1:]
    reports = re.split(r"Compiling entry function '(\S+)'", report)[1:]
    about = dict(zip(reports[::2], reports[1::2], strict=True))
    found = {}
    for name, body in zip(pieces[::2], pieces[1::2], strict=True):
        owners = [
            tile.id for tile in tiles_of(arch) if re.search(rf"(?<!\d){len(struct_of(tile))}{struct_of(tile)}", name)
        ]
        assert len(owners) == 1, name
        found[owners[0]] = Code(INSTRUCTION.findall(body), about[name])
    return found


@pytest.fixture(scope="module")
def codes(pytestconfig: pytest.Config) -> dict[str, dict[str, Code]]:
    folder = Path(pytestconfig.cache.mkdir("tcgen05"))
    return {arch: compiled(arch, folder) for arch in ARCHS}


CASES = [(arch, tile) for arch in ARCHS for tile in tiles_of(arch)]


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "tile"), CASES, ids=[f"{arch}-{tile.id}" for arch, tile in CASES])
def test_machine_code_holds_what_the_fields_promise(
    arch: str, tile: PairTile, codes: dict[str, dict[str, Code]]
) -> None:
    code = codes[arch][tile.id]
    steps = 8 if tile.k_bytes == 48 else 128 // tile.k_bytes
    products = steps * tile.stacked
    kind = r"UTCOMMA\.2CTA\.(BLOCK16|4X) " if tile.scaled else r"UTCQMMA\.2CTA "
    assert code.count(kind) == products
    assert code.count(r"UTC[A-Z]MMA") == products
    kept = steps if tile.collector_b else 0
    assert code.count(r"UTC[OQ]MMA.*B_KEEP") == code.count(r"UTC[OQ]MMA.*B_REUSE") == kept
    assert code.count(r"UTCBAR\.2CTA\.MULTICAST\.MMA_READ_SHM_A") == (tile.stacked if tile.early_a_release else 0)
    # one copy for each atom of 128 rows x 4 scales: of a stage, or of the three that a turn goes through
    atoms = 4 * (3 if tile.k_bytes == 48 else 1)
    assert code.count(r"UTCCP\.") == (atoms * (tile.stacked + max(tile.nt, 128) // 128) if tile.scaled else 0)
    assert code.count(r"LDTM\.x32") > 0
    assert code.count(r"UTMASTG\.2D") > 0


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "tile"), CASES, ids=[f"{arch}-{tile.id}" for arch, tile in CASES])
def test_machine_code_multicasts_as_wide_as_the_cluster(
    arch: str, tile: PairTile, codes: dict[str, dict[str, Code]]
) -> None:
    code = codes[arch][tile.id]
    wide = code.count(r"UTMALDG\.2D\.MULTICAST32\.2CTA")
    narrow = code.count(r"UTMALDG\.2D\.MULTICAST\.2CTA")
    shared = tile.stacked * (2 if tile.scaled else 1) if tile.cluster > 2 else 0
    assert (wide, narrow)[not tile.multicast_32b] == shared + (1 if tile.scaled else 0)
    assert (wide, narrow)[tile.multicast_32b] == 0
    alone = code.count(r"UTMALDG\.2D\.2CTA")
    assert alone == 1 + (0 if tile.cluster > 2 else tile.stacked * (2 if tile.scaled else 1))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_is_spilled(arch: str, codes: dict[str, dict[str, Code]]) -> None:
    assert set(codes[arch]) == {tile.id for tile in tiles_of(arch)}
    spilled = {
        name: re.findall(r"[1-9]\d* bytes (?:stack frame|spill)", code.report) for name, code in codes[arch].items()
    }
    assert {name: found for name, found in spilled.items() if found} == {}
    local = Counter(
        name for name, code in codes[arch].items() for text in code.instructions if text.split(".")[0] in ("LDL", "STL")
    )
    assert local == {}


def test_every_tile_of_the_specs_is_looked_at() -> None:
    """On every arch where it is legal; what sm_110 takes is what it shares with the family baseline."""
    tree = load_tree(ROOT / "specs")
    targets = {"sm100": "100f", "sm103": "103a", "sm107": "107a"}
    for name in ("gemm_fp8", "gemm_nvfp4"):
        for tile in tree.families[name].tiles:
            if tile.engine != "tcgen05":
                continue
            same = [t for t in TILES if t.family == name and t.spec_fields().items() >= spec_items(tile.fields)]
            assert len(same) == 1, tile.id
            legal = {target for arch, target in targets.items() if is_legal(tree.archs[arch].profile, tile)}
            assert legal <= set(same[0].targets), tile.id


def spec_items(found: Mapping[str, object]) -> Set[tuple[str, object]]:
    return {key: value for key, value in found.items() if key != "dtype"}.items()


def test_what_only_one_generation_has_is_refused_elsewhere(tmp_path: Path) -> None:
    nvcc = tool("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc of CUDA 13.5")
    tile = next(tile for tile in TILES if tile.id == "fp8-1x1-k64-c2")
    source = tmp_path / "tile.cu"
    source.write_text(
        '#include "tilewright/gemm_fp8/config.h"\n#include "tilewright/gemm_fp8/tcgen05.cuh"\n'
        + tile.struct("Tile")
        + "template cudaError_t tilewright::gemm_fp8::EngineLauncher<tilewright::Engine::kTcgen05>::launch<"
        "tilewright::GemmFp8Config<Tile, float>>(const tilewright::GemmFp8Args&, cudaStream_t);\n"
    )
    command = [nvcc, "-std=c++17", f"-I{INCLUDE}", "-gencode", "arch=compute_100f,code=sm_100f", "-cubin"]
    done = subprocess.run([*command, source, "-o", tmp_path / "tile.cubin"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "this tile is one of sm_107" in done.stderr
