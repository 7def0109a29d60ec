"""Specs of another state: a folder as it is, or a git revision unpacked into a temporary folder."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


class RevisionError(ValueError):
    """The base is neither a folder nor a revision that holds the specs."""


@contextmanager
def base_specs(base: str, specs: str) -> Iterator[Path]:
    """The folder to compare `specs` with.

    `base` is a folder of specs, or a git revision of the repository that `specs` lies in, whose version of the
    same folder is unpacked for the time of the context. Raises RevisionError.
    """
    if base and Path(base).is_dir():
        if not (Path(base) / "families").is_dir():
            raise RevisionError(f"folder '{base}' is no folder of specs: it has no `families`")
        yield Path(base)
        return
    folder = Path(specs).resolve()
    found = _git(folder, "rev-parse", "--show-toplevel", problem=f"'{base}' is no folder, and {specs} is not in git")
    top = Path(found.decode().strip()).resolve()
    inside = folder.relative_to(top).as_posix()
    revision = _git(
        folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}",
        problem=f"'{base}' is neither a folder nor a git revision",
    ).decode().strip()  # fmt: skip
    tree = revision if inside == "." else f"{revision}:{inside}"
    data = _git(top, "archive", "--format=tar", tree, problem=f"revision '{base}' has no folder {inside}")
    with TemporaryDirectory(prefix="tilewright-base-") as temporary:
        _unpack(data, Path(temporary))
        yield Path(temporary)


def _git(folder: Path, *arguments: str, problem: str) -> bytes:
    command = ["git", "-C", str(folder if folder.is_dir() else Path.cwd()), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True).stdout
    except FileNotFoundError:
        raise RevisionError(f"{problem} (git is not installed)") from None
    except subprocess.CalledProcessError:
        raise RevisionError(problem) from None


def _unpack(data: bytes, target: Path) -> None:
    """Regular .yaml files of the archive; links and anything that would leave the folder are passed over."""
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            path = (target / member.name).resolve()
            content = archive.extractfile(member) if member.isfile() else None
            if content is None or target.resolve() not in path.parents or path.suffix != ".yaml":
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())
