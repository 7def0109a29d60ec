"""`python -m codegen` in a source tree, `python -m tilewright_codegen` when installed."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
