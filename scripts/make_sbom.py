"""Writes a CycloneDX bill of materials for a wheel: what is inside it, and what it asks for.

    python scripts/make_sbom.py dist/tilewright-0.1.0-....whl --out tilewright.cdx.json

Needs cyclonedx-python-lib[json-validation]; the document is validated against the schema before it is written. The
same wheel gives the same document: no time and no random serial number.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import uuid
import zipfile
from email.parser import Parser
from pathlib import Path

from build_requirements import PYPROJECT, build_requirements
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

NAMESPACE = uuid.UUID("6d0a1a35-6f0e-4a55-9d0a-5b1c8f3c1f7e")


def main_component(wheel: Path) -> tuple[Component, list[str]]:
    """The wheel itself, and its unconditional requirements."""
    with zipfile.ZipFile(wheel) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(member).decode())
    name, version = str(metadata["Name"]), str(metadata["Version"])
    component = Component(
        name=name,
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref=f"{name}@{version}",
        purl=PackageURL("pypi", None, name, version, {"file_name": wheel.name}),
        licenses=[LicenseExpression(str(metadata["License-Expression"]))],
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(wheel.read_bytes()).hexdigest())],
    )
    requirements: list[str] = metadata.get_all("Requires-Dist", [])
    return component, [text for text in requirements if ";" not in text]


def has_library(wheel: Path) -> bool:
    """Whether machine code is inside; the generator alone has none."""
    with zipfile.ZipFile(wheel) as archive:
        return any(name.endswith(".so") for name in archive.namelist())


def cuda_runtime() -> Component:
    """The one thing of others inside the library: libcudart, linked in."""
    pins = [text for text in build_requirements(PYPROJECT.read_text("utf-8")) if text.startswith("nvidia-cuda-runtime")]
    (pin,) = pins
    version = pin.split("==")[1]
    return Component(
        name="nvidia-cuda-runtime",
        version=version,
        type=ComponentType.LIBRARY,
        bom_ref="nvidia-cuda-runtime",
        scope=ComponentScope.REQUIRED,
        licenses=[DisjunctiveLicense(name="NVIDIA CUDA Toolkit End User License Agreement")],
        properties=[Property(name="tilewright:linkage", value="static")],
    )


def required(text: str) -> Component:
    """A requirement as a component: its version is chosen where the wheel is installed."""
    name = re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]
    return Component(
        name=name,
        type=ComponentType.LIBRARY,
        bom_ref=f"requires-{name}",
        purl=PackageURL("pypi", None, name.lower()),
        properties=[Property(name="tilewright:requirement", value=text)],
    )


def make_bom(wheel: Path) -> str:
    """The document as JSON. SystemExit when it does not fit the schema."""
    main, requirements = main_component(wheel)
    bom = Bom(serial_number=uuid.uuid5(NAMESPACE, wheel.name))
    bom.metadata.component = main
    others = [*([cuda_runtime()] if has_library(wheel) else []), *map(required, requirements)]
    for component in others:
        bom.components.add(component)
    bom.register_dependency(main, others)
    data = json.loads(JsonV1Dot6(bom).output_as_string())
    del data["metadata"]["timestamp"]
    text = json.dumps(data, indent=2)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        sys.exit(f"error: the bill of materials does not fit the schema: {problem}.")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.write_text(make_bom(options.wheel) + "\n", "utf-8")
    print(f"{options.out}: {options.wheel.name}")


if __name__ == "__main__":
    main()
