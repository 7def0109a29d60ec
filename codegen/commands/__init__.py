"""One module a verb; each exposes `command`."""

from __future__ import annotations
