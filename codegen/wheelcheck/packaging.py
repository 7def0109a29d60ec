"""Checks of the wheel as a package: members, record, metadata, licences."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .archive import Archive, record_hash
from .findings import Check

LIBRARY = "tilewright/_native.so"
IMAGES = "tilewright/images.json"
SPECS = "tilewright_codegen/_data/specs/"
TEMPLATES = "tilewright_codegen/_data/csrc_templates/"
CMAKE = "tilewright_codegen/_data/cmake/TilewrightFamilies.cmake"
PACKAGES = ("tilewright", "tilewright_codegen")
LICENCE_FILES = ("LICENSE", "NOTICE")
_NATIVE = re.compile(r"\.(so|pyd|dll|dylib|a|o)(\.[0-9.]+)?$")
_FORBIDDEN_REQUIREMENTS = re.compile(r"^(nvidia[-_]|cuda[-_]|triton\b)", re.IGNORECASE)


def check_members(archive: Archive, check: Check) -> None:
    """Only our packages are inside, with one library, and nothing of CUDA or torch is bundled."""
    top = {member.split("/")[0] for member in archive.members}
    for name in sorted(top - {*PACKAGES, archive.dist_info}):
        check.problems.append(f"holds {name}/, which is none of {', '.join(PACKAGES)} and the metadata")
    natives = sorted(member for member in archive.members if _NATIVE.search(member))
    for member in natives:
        if member != LIBRARY:
            check.problems.append(f"bundles {member}; only {LIBRARY} is expected")
    for member in sorted(archive.members):
        if "__pycache__" in member or member.endswith(".pyc"):
            check.problems.append(f"holds {member}, a leftover of another interpreter")
    for member in (LIBRARY, IMAGES, CMAKE, f"{SPECS}families/gemm_4bit/family.yaml"):
        if member not in archive.members:
            check.problems.append(f"lacks {member}")
    check.facts["files"] = len(archive.members)
    check.facts["file_bytes"] = archive.path.stat().st_size


def check_record(archive: Archive, check: Check) -> None:
    """RECORD lists every member with the right hash, and nothing else."""
    record = archive.record()
    own = {f"{archive.dist_info}/RECORD", f"{archive.dist_info}/RECORD.jws"}
    for member in sorted(set(archive.members) - set(record) - own):
        check.problems.append(f"{member} is not listed in RECORD")
    for member in sorted(set(record) - set(archive.members)):
        check.problems.append(f"RECORD lists {member}, which is not there")
    for member in sorted(set(record) & set(archive.members) - own):
        if record[member] != record_hash(archive.read(member)):
            check.problems.append(f"{member} is not what RECORD says")


def check_metadata(archive: Archive, check: Check) -> None:
    """Name, version and tags agree with the file name; requirements leave CUDA to the user's torch."""
    name = archive.name
    if archive.dist_info != f"{name.name}-{name.version}.dist-info":
        check.problems.append(f"metadata lies in {archive.dist_info}; the name says {name.name}-{name.version}")
    for key, expected in (("Name", "tilewright"), ("Version", name.version)):
        if archive.metadata[key] != expected:
            check.problems.append(f"{key} is {archive.metadata[key]}; expected {expected}")
    tags = frozenset(archive.wheel.get_all("Tag", []))
    if tags != name.tags:
        written, named = (", ".join(sorted(found)) for found in (tags, name.tags))
        check.problems.append(f"WHEEL has the tags {written}; the file name has {named}")
    if (name.python, name.abi) != ("py3", "none"):
        check.problems.append(f"tag {name.python}-{name.abi}; the library uses no Python API, so py3-none is expected")
    if archive.wheel["Root-Is-Purelib"] != "false":
        check.problems.append("WHEEL says Root-Is-Purelib; there is a library inside")
    check.problems += _requirement_problems(archive)
    for key in ("Requires-Python", "Summary"):
        if not archive.metadata[key]:
            check.problems.append(f"METADATA has no {key}")
    check.facts.update(version=name.version, tags=sorted(name.tags))


def _requirement_problems(archive: Archive) -> Iterator[str]:
    requirements: list[str] = archive.metadata.get_all("Requires-Dist", [])
    plain = [text for text in requirements if ";" not in text]
    for text in plain:
        if _FORBIDDEN_REQUIREMENTS.match(text):
            yield f"requires {text}; CUDA libraries come with torch"
    torch = [text for text in plain if re.match(r"torch\b", text)]
    if not torch:
        yield "does not require torch"
    for text in torch:
        if "==" in text or "<" in text:
            yield f"requires {text}; one library serves every torch from the oldest on, so no upper bound is expected"


def check_licences(archive: Archive, check: Check) -> None:
    """Every licence file is there, has text, and is named by the metadata."""
    named = set(archive.metadata.get_all("License-File", []))
    if not archive.metadata["License-Expression"]:
        check.problems.append("METADATA has no License-Expression")
    for file in LICENCE_FILES:
        member = f"{archive.dist_info}/licenses/{file}"
        if member not in archive.members:
            check.problems.append(f"lacks the licence file {file}")
        elif not archive.text(member).strip():
            check.problems.append(f"{file} is empty")
        if file not in named:
            check.problems.append(f"METADATA does not name {file} as a License-File")
    check.facts["expression"] = archive.metadata["License-Expression"]
