"""Weights of published models, [N, K]: what a campaign measures unless it is told otherwise."""

from __future__ import annotations

from ..grid import Point

SHAPES = (
    Point(1024, 4096, "Llama3-8B k/v"),
    Point(1024, 8192, "Llama3-70B k/v"),
    Point(896, 896, "Qwen2.5-0.5B q/o"),
    Point(1536, 1536, "Qwen2.5-1.5B q/o"),
    Point(1536, 8960, "Qwen2.5-1.5B down"),
    Point(2048, 2048, "Llama3.2-1B q/o"),
    Point(2048, 8192, "Llama3.2-1B down"),
    Point(2560, 2560, "Phi-2 dense"),
    Point(3072, 3072, "Llama3.2-3B q/o"),
    Point(3072, 8192, "Llama3.2-3B down"),
    Point(3584, 18_944, "Qwen2.5-7B down"),
    Point(4096, 4096, "Llama3-8B o_proj"),
    Point(4096, 11_008, "Llama2-7B down"),
    Point(4096, 14_336, "Llama3-8B down"),
    Point(4608, 3584, "Qwen2.5-7B qkv"),
    Point(5120, 5120, "Llama2-13B o_proj"),
    Point(5120, 13_824, "Llama2-13B down"),
    Point(6144, 4096, "Llama3-8B qkv"),
    Point(8192, 3072, "Llama3.2-3B up"),
    Point(8192, 8192, "Llama3-70B o_proj"),
    Point(8960, 1536, "Qwen2.5-1.5B gate/up"),
    Point(11_008, 4096, "Llama2-7B gate/up"),
    Point(14_336, 4096, "Llama3-8B gate/up"),
    Point(18_944, 3584, "Qwen2.5-7B gate/up"),
    Point(28_672, 8192, "Llama3-70B gate/up"),
    Point(8192, 28_672, "Llama3-70B down"),
    Point(1024, 3072, "Qwen3-0.6B down"),
    Point(3072, 1024, "Qwen3-0.6B gate/up"),
    Point(2048, 5632, "TinyLlama-1.1B down"),
    Point(5632, 2048, "TinyLlama-1.1B gate/up"),
    Point(2048, 11_008, "Qwen2.5-3B down"),
    Point(11_008, 2048, "Qwen2.5-3B gate/up"),
    Point(8192, 2048, "Llama3.2-1B gate/up"),
    Point(2560, 4096, "Qwen3-4B o_proj"),
    Point(4096, 2560, "Qwen3-4B q"),
    Point(9216, 2304, "Gemma2-2B gate/up"),
    Point(2560, 10_240, "Phi-2 fc2"),
    Point(10_240, 2560, "Phi-2 fc1"),
    Point(9216, 3072, "Phi-3-mini qkv"),
    Point(16_384, 3072, "Phi-3-mini gate/up"),
    Point(20_480, 2560, "Gemma3-4B gate/up"),
    Point(128_256, 4096, "Llama3-8B lm_head"),
    Point(151_936, 1536, "Qwen2.5-1.5B lm_head"),
)
ROWS = (
    1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768,
    1024, 1280, 2048,
)  # fmt: skip
"""Values of M: decode, speculative decoding, batches, prompts. Half of them are no power of two: rules that were made
from powers of two alone picked tiles whose rows such sizes leave empty."""
