"""Whether a layer's weights were all there at an earlier call, so that a kernel may read them ahead of the stream."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch

_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

Mark = tuple[weakref.ref[torch.Tensor], int, int] | None
Pending = tuple[tuple[Mark, ...], frozenset[int]]
"""Weights as they are, and the streams on which a launch has waited for them."""
NOTHING: Pending = ((), frozenset())


class Settled:
    """Remembers weights that a launch has waited for, as they were then, and the streams that it waited on.

    torch counts the writes to a tensor: one that is the same object, at the same address, with the same count has not
    been written to since. What torch does not count (`tensor.data`, kernels of others) is told by
    `torch.autograd.graph.increment_version`.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known = NOTHING

    def forget(self) -> None:
        """The next launch waits."""
        self._known = NOTHING

    def look(self, tensors: Sequence[torch.Tensor | None]) -> Pending | None:
        """None where a launch on the current stream need not wait for these weights.

        Otherwise what to hand to `remember` once that launch has been made: not before, as another thread may launch on
        the same stream. A CUDA graph that is being captured will start, each time, after all that its stream was given
        before: there an earlier call on any stream does, and a captured launch is not remembered, as it has not run.
        """
        marks, streams = self._known
        device = next((tensor.get_device() for tensor in tensors if tensor is not None), -1)
        stream = 0 if device < 0 else _stream(device)
        same = _same(tensors, marks)
        if same and stream in streams:
            return NOTHING if torch._C._is_tracing() else None  # a trace would keep the answer
        if device >= 0 and torch.cuda.is_current_stream_capturing():
            return None if same else NOTHING
        return (marks, streams | {stream}) if same else (_marks(tensors), frozenset((stream,)))

    def remember(self, pending: Pending) -> None:
        """That launch was made."""
        if pending[0]:
            self._known = pending

    def __reduce__(self) -> tuple[Any, ...]:
        # Of a copied or pickled layer nothing has been waited for.
        return (Settled, ())


def _same(tensors: Sequence[torch.Tensor | None], marks: tuple[Mark, ...]) -> bool:
    """Whether nothing was written to the tensors since they were marked."""
    if len(tensors) != len(marks):
        return False
    for tensor, mark in zip(tensors, marks, strict=True):
        if tensor is None or mark is None:
            if tensor is not None or mark is not None:
                return False
        elif mark[0]() is not tensor or tensor._version != mark[1] or tensor.data_ptr() != mark[2]:
            return False
    return True


def _marks(tensors: Sequence[torch.Tensor | None]) -> tuple[Mark, ...]:
    """Empty where torch does not count writes: tensors made in inference mode, and those that only stand for others."""
    if any(tensor is not None and (type(tensor) is not torch.Tensor or tensor.is_inference()) for tensor in tensors):
        return ()
    try:
        return tuple(None if t is None else (weakref.ref(t), t._version, t.data_ptr()) for t in tensors)
    except RuntimeError:  # under a transform of torch.func
        return ()


def _stream(device: int) -> int:
    """The handle of the current stream of a CUDA device."""
    if _raw_stream is not None:
        return int(_raw_stream(device))
    return int(torch.cuda.current_stream(device).cuda_stream)
