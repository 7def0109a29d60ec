"""Where the other side of a comparison comes from: a folder of specs, or one at a git revision."""

from __future__ import annotations

import atexit
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path


class BaseError(ValueError):
    """The text names neither a folder of specs nor a git revision that holds one."""


def resolve_base(text: str, specs_dir: str | Path) -> Path:
    """The folder that BASE names.

    An existing folder is taken as it is. Anything else is a git revision of the repository that holds `specs_dir`;
    the files of `specs_dir` at that revision are unpacked into a temporary folder that lasts as long as the
    process. Raises BaseError with one line when neither fits.
    """
    folder = Path(text)
    if folder.is_dir():
        return folder
    specs = Path(specs_dir)
    if not specs.is_dir():
        raise BaseError(f"there is no folder of specs '{specs_dir}'.")
    where = _git(specs, "rev-parse", "--show-toplevel", "--show-prefix")
    if where is None:
        raise BaseError(f"'{text}' is not a folder, and '{specs_dir}' is not in a git repository.")
    top, prefix = where.decode().splitlines()[:2]
    if _git(Path(top), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{text}^{{tree}}") is None:
        raise BaseError(f"'{text}' is neither a folder nor a git revision.")
    archive = _git(Path(top), "archive", "--format=tar", f"{text}:{prefix}")
    if archive is None:
        raise BaseError(f"revision '{text}' has no folder '{prefix.rstrip('/')}'.")
    return _unpack(archive)


def _git(folder: Path, *arguments: str) -> bytes | None:
    """Output of a git command, or None when it fails or git is missing."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout


def _unpack(archive: bytes) -> Path:
    target = Path(tempfile.mkdtemp(prefix="tilewright-base-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        for member in tar.getmembers():
            if member.isfile() and not _escapes(member.name):
                place = target / member.name
                place.parent.mkdir(parents=True, exist_ok=True)
                data = tar.extractfile(member)
                place.write_bytes(data.read() if data else b"")
    return target


def _escapes(name: str) -> bool:
    return name.startswith("/") or ".." in name.split("/")
