"""The wheel as a zip file: its name, its members, its metadata."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
import zlib
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from functools import cached_property
from pathlib import Path

from .findings import WheelError

_NAME = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-(?P<build>[0-9][^-]*))?"
    r"-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)
MAX_MEMBER_BYTES = 1 << 30


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name."""

    name: str
    version: str
    build: str | None
    python: str
    abi: str
    platform: str

    @property
    def tags(self) -> frozenset[str]:
        """Every tag of the compressed set, expanded."""
        return frozenset(
            f"{python}-{abi}-{platform}"
            for python in self.python.split(".")
            for abi in self.abi.split(".")
            for platform in self.platform.split(".")
        )

    @property
    def local(self) -> str | None:
        """The local version label, such as the name of a variant."""
        return self.version.split("+", 1)[1] if "+" in self.version else None


def parse_name(file_name: str) -> WheelName:
    """WheelError for a name that is not a wheel's."""
    match = _NAME.fullmatch(file_name)
    if match is None:
        raise WheelError(f"'{file_name}' is not the name of a wheel; expected name-version-python-abi-platform.whl")
    return WheelName(**match.groupdict())


class Archive:
    """A wheel file, opened. WheelError when it is no zip file or has no dist-info folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = parse_name(path.name)
        try:
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile) as error:
            raise WheelError(f"{path}: {error}") from None
        self.members = {info.filename: info for info in self._zip.infolist() if not info.is_dir()}
        folders = {name.split("/")[0] for name in self.members if ".dist-info/" in name}
        if len(folders) != 1:
            raise WheelError(f"{path}: {len(folders)} dist-info folders; one is expected")
        self.dist_info = folders.pop()

    def read(self, member: str) -> bytes:
        """Contents of a member. WheelError when it is missing, damaged or absurdly large."""
        info = self.members.get(member)
        if info is None:
            raise WheelError(f"{self.path}: has no {member}")
        if info.file_size > MAX_MEMBER_BYTES:
            raise WheelError(f"{self.path}: {member} has {info.file_size} bytes")
        try:
            return self._zip.read(member)
        except (zipfile.BadZipFile, zlib.error) as error:
            raise WheelError(f"{self.path}: {member}: {error}") from None

    def text(self, member: str) -> str:
        return self.read(member).decode("utf-8", errors="replace")

    @cached_property
    def metadata(self) -> Message:
        return Parser().parsestr(self.text(f"{self.dist_info}/METADATA"))

    @cached_property
    def wheel(self) -> Message:
        return Parser().parsestr(self.text(f"{self.dist_info}/WHEEL"))

    def record(self) -> dict[str, str]:
        """Path -> hash as RECORD has them."""
        rows = csv.reader(io.StringIO(self.text(f"{self.dist_info}/RECORD")))
        return {row[0]: row[1] for row in rows if len(row) >= 2}

    def extract(self, prefix: str, target: Path) -> int:
        """Write every member below a prefix into a folder; returns how many there were."""
        found = 0
        for member in self.members:
            relative = member.removeprefix(prefix)
            if relative == member or relative.startswith("/") or ".." in relative.split("/"):
                continue
            place = target / relative
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.read(member))
            found += 1
        return found


def record_hash(data: bytes) -> str:
    """The hash of a file as RECORD writes it."""
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
