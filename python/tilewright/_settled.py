"""Whether a layer's weights were all there at an earlier call, so that a kernel may read them ahead of the stream."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)

Parts = Mapping[str, torch.Tensor | None]
Mark = tuple[str, weakref.ref[torch.Tensor], int, int]
Pending = tuple[tuple[Mark, ...], tuple[str, ...], int, frozenset[int]]
"""Tensors as they are, the names of those that are absent, their device, and the streams that have waited for them."""
NOTHING: Pending = ((), (), -1, frozenset())


class Settled:
    """Remembers the parts of a weight that launches have waited for, as they were then, and the streams of those.

    torch counts the writes to a tensor: one that is the same object, at the same address, with the same count has not
    been written to since. What torch does not count (`tensor.data`, kernels of others) is told by
    `torch.autograd.graph.increment_version`.
    """

    __slots__ = ("_known", "names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self._known = NOTHING

    def forget(self) -> None:
        """The next launch waits."""
        self._known = NOTHING

    def look(self, parts: Parts) -> Pending | None:
        """None where a launch on the current stream need not wait for these parts.

        Otherwise what to hand to `remember` once that launch has been made: not before, as another thread may launch on
        the same stream.
        """
        known = marks, absent, device, streams = self._known
        same = bool(marks)
        for name, reference, version, at in marks:
            tensor = parts[name]
            if tensor is None or reference() is not tensor or tensor._version != version or tensor.data_ptr() != at:
                same = False
        for name in absent:
            if parts[name] is not None:
                same = False
        if same and (0 if device < 0 else _stream(device)) in streams:
            return NOTHING if torch._C._is_tracing() else None  # a trace would keep the answer
        return self._wait(known if same else self._mark(parts), same)

    def remember(self, pending: Pending) -> None:
        """That launch was made."""
        if pending[0]:
            self._known = pending

    def _wait(self, found: Pending, same: bool) -> Pending | None:
        """`found`, waited for on this stream too, unless a CUDA graph is being captured.

        That one will start, each time, after all that its stream was given before: there an earlier call on any stream
        does, and a captured launch is not remembered, as it has not run.
        """
        marks, absent, device, streams = found
        if device < 0:
            return marks, absent, device, frozenset((0,))
        if torch.cuda.is_current_stream_capturing():
            return None if same else NOTHING
        return marks, absent, device, streams | {_stream(device)}

    def _mark(self, parts: Parts) -> Pending:
        """No marks where torch does not count writes: tensors of inference mode, and those that stand for others."""
        present = {name: tensor for name in self.names if (tensor := parts[name]) is not None}
        device = next(iter(present.values())).get_device()
        marks: tuple[Mark, ...] = ()
        if not any(type(tensor) is not torch.Tensor or tensor.is_inference() for tensor in present.values()):
            try:
                marks = tuple((n, weakref.ref(t), t._version, t.data_ptr()) for n, t in present.items())
            except RuntimeError:  # under a transform of torch.func
                marks = ()
        return marks, tuple(name for name in self.names if name not in present), device, frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        # Of a copied or pickled layer nothing has been waited for.
        return (Settled, (self.names,))


def _stream(device: int) -> int:
    """The handle of the current stream of a CUDA device."""
    if _raw_stream is not None:
        return int(_raw_stream(device))
    return int(torch.cuda.current_stream(device).cuda_stream)
