"""Where the tests keep what they compile."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright_codegen.emulate.build import BuildError, compiler


@pytest.fixture(scope="session", autouse=True)
def cache() -> None:
    """Compiled tiles stay in the build folder of the source tree, by content, unless the environment says otherwise."""
    os.environ.setdefault("TILEWRIGHT_EMULATOR_CACHE", str(Path(__file__).resolve().parents[2] / "build" / "emulated"))
    try:
        compiler()
    except BuildError as error:
        pytest.skip(str(error))
