"""Tiles of the tcgen05 engine that the tests build: every combination of fields that a spec may ship, by target."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class PairTile:
    """Fields of a tile as in a spec, the family it belongs to and the targets it is built for."""

    id: str
    family: str
    targets: tuple[str, ...]
    pair: str = "1x1"
    nt: int = 256
    cluster: int = 2
    stages: int = 5
    k_bytes: int = 32
    rings: str = "joint"
    collector_b: bool = False
    early_a_release: bool = False
    multicast_32b: bool = False
    accumulators: int = 1
    overlap: bool = False
    supergroup: int = 8
    promote: bool = False

    @property
    def stacked(self) -> int:
        return int(self.pair[0])

    @property
    def scaled(self) -> bool:
        return self.family == "gemm_nvfp4"

    def smem_bytes(self) -> int:
        scales = 2048 * self.stacked + 16 * max(self.nt, 128) if self.scaled else 0
        stage = 16384 * self.stacked + 64 * self.nt + scales
        buffers, header = (2, 2048) if self.scaled else (1, 1024)
        return self.stages * stage + self.stacked * buffers * 8192 + header

    def tmem_columns(self) -> int:
        accumulators = self.accumulators * self.stacked * self.nt - (64 if self.overlap else 0)
        if not self.scaled:
            return accumulators
        atoms, buffers = (4, 3) if self.k_bytes == 48 else (2, 2)
        return accumulators + buffers * atoms * (4 * self.stacked + max(self.nt, 128) // 32)

    def spec_fields(self) -> dict[str, object]:
        """The fields under the names that a spec gives them."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("id", "family", "targets")}

    def struct(self, name: str) -> str:
        """The C++ struct that the generator makes of the tile."""
        lines = [
            f"struct {name} {{",
            "  static constexpr tilewright::Engine kEngine = tilewright::Engine::kTcgen05;",
        ]
        for name_in_spec, value in self.spec_fields().items():
            constant = "k" + "".join(part.capitalize() for part in name_in_spec.split("_"))
            if isinstance(value, bool):
                lines.append(f"  static constexpr bool {constant} = {str(value).lower()};")
            elif isinstance(value, int):
                lines.append(f"  static constexpr int {constant} = {value};")
            else:
                lines.append(f'  static constexpr char {constant}[] = "{value}";')
        return "\n".join([*lines, "};", ""])


ALL = ("100f", "103a", "107a")
ULTRA = ("103a",)
RUBIN = ("107a",)

TILES = (
    PairTile("nvfp4-1x1-c2", "gemm_nvfp4", ALL),
    PairTile("nvfp4-1x1-c2-overlap", "gemm_nvfp4", ALL, accumulators=2, overlap=True),
    PairTile("nvfp4-1x1-c4-overlap", "gemm_nvfp4", ALL, cluster=4, accumulators=2, overlap=True),
    PairTile("nvfp4-1x1-c8-overlap", "gemm_nvfp4", ALL, cluster=8, accumulators=2, overlap=True),
    PairTile("nvfp4-1x1-n128-c2", "gemm_nvfp4", ALL, nt=128, stages=6, accumulators=2),
    PairTile("nvfp4-1x1-n64-c2", "gemm_nvfp4", ALL, nt=64, stages=8, accumulators=2),
    PairTile("fp8-1x1-n64-c2", "gemm_fp8", ALL, nt=64, stages=9, accumulators=2),
    PairTile("fp8-1x1-c2", "gemm_fp8", ALL, stages=6, accumulators=2),
    PairTile("fp8-1x1-c4", "gemm_fp8", ALL, stages=6, accumulators=2, cluster=4),
    PairTile("fp8-1x1-n128-c2", "gemm_fp8", ALL, nt=128, stages=8, accumulators=2),
    PairTile("fp8-1x1-n128-promote", "gemm_fp8", ALL, nt=128, stages=8, accumulators=2, promote=True),
    PairTile("fp8-2x1-c2", "gemm_fp8", ALL, pair="2x1", stages=4),
    PairTile("nvfp4-1x1-k96-c2", "gemm_nvfp4", ULTRA, k_bytes=48),
    PairTile("nvfp4-1x1-k96-c4", "gemm_nvfp4", ULTRA, k_bytes=48, cluster=4),
    PairTile("nvfp4-1x1-k128-c2", "gemm_nvfp4", RUBIN, k_bytes=64, accumulators=2),
    PairTile("nvfp4-2x1-k128-c2", "gemm_nvfp4", RUBIN, pair="2x1", k_bytes=64, stages=4, collector_b=True),
    PairTile("nvfp4-2x1-k128-c4", "gemm_nvfp4", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=4, collector_b=True),
    PairTile("nvfp4-2x1-k128-c8", "gemm_nvfp4", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=8, collector_b=True),
    PairTile(
        "nvfp4-2x1-k128-c4-early", "gemm_nvfp4", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=4,
        rings="split", collector_b=True, early_a_release=True,
    ),
    PairTile(
        "nvfp4-2x1-k128-c8-early", "gemm_nvfp4", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=8,
        rings="split", collector_b=True, early_a_release=True, multicast_32b=True,
    ),
    PairTile("fp8-1x1-k64-c2", "gemm_fp8", RUBIN, k_bytes=64, stages=6, accumulators=2),
    PairTile("fp8-2x1-k64-c2", "gemm_fp8", RUBIN, pair="2x1", k_bytes=64, stages=5, collector_b=True),
    PairTile("fp8-2x1-k64-c4", "gemm_fp8", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=4, collector_b=True),
    PairTile("fp8-2x1-k64-c8", "gemm_fp8", RUBIN, pair="2x1", k_bytes=64, stages=5, cluster=8, collector_b=True),
    PairTile(
        "fp8-2x1-k64-c8-split", "gemm_fp8", RUBIN, pair="2x1", k_bytes=64, stages=6, cluster=8,
        rings="split", collector_b=True, multicast_32b=True,
    ),
)  # fmt: skip
