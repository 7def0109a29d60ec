"""What an op is: a schema, and objects that stand for its calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

OptionalTensor = torch.Tensor | None


class Call(Protocol):
    """A checked call: its fields are the arguments of the op, and making it checks them."""

    def compute(self) -> Any:
        """The result, in plain torch."""

    def empty(self) -> Any:
        """Uninitialised tensors like the result."""


@dataclass(frozen=True)
class Op:
    """An op: its name, its schema behind the name, and what a call of it is.

    in_torch: registered as `_NAME_torch` too, which the native library calls where none of its kernels answers.
    """

    name: str
    arguments: str
    call: type[Call]
    in_torch: bool = True

    def kernel(self, *arguments: Any, **named: Any) -> Any:
        """What the op gives."""
        return self.call(*arguments, **named).compute()

    def fake(self, *arguments: Any, **named: Any) -> Any:
        """The shapes and dtypes of what the op gives."""
        return self.call(*arguments, **named).empty()
