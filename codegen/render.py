"""From a spec tree to the generated sources of a build."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from . import emit_cpp, emit_py
from .contexts import (
    BuildContext,
    FamilyContext,
    family_context,
    generated_header,
    group_contexts,
    instance_contexts,
    launch_context,
)
from .data import templates_folder
from .engine_needs import ENGINE_NEEDS
from .images import Image, ImagePlan, mentioned_tiles, plan_images
from .ir import Family, SpecTree, Tile
from .output import OutputSet
from .project import TILEWRIGHT, Project
from .resources import needs
from .tree import spec_files


def shared_memory_bytes(tile: Tile) -> int | None:
    """Dynamic shared memory of a tile whose engine has a formula that the kernels repeat; None for others."""
    return needs(tile).smem_bytes if type(tile.model) in ENGINE_NEEDS else None


@dataclass(frozen=True)
class Rendering:
    """Everything one build needs, and what its binary must hold."""

    outputs: OutputSet
    plans: dict[str, ImagePlan]


def environment(folder: Path) -> Environment:
    """Jinja as all templates expect it: undefined names fail, blocks leave no blank lines."""
    return Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def specs_digest(root: str | Path) -> str:
    """SHA-256 over names and contents of the spec files, independent of where they stand."""
    digest = hashlib.sha256()
    for file in spec_files(Path(root)):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def render(
    tree: SpecTree, images: Sequence[Image], templates: Path | None = None, project: Project = TILEWRIGHT
) -> Rendering:
    """Render all families of a project for the images of a build. The result depends on nothing else."""
    folder = templates or templates_folder()
    headers = project.headers or folder / "include"
    jinja = environment(folder)
    outputs = OutputSet()
    plans: dict[str, ImagePlan] = {}
    device: list[tuple[str, tuple[Image, ...]]] = []
    host: list[str] = []
    digest = specs_digest(tree.root)
    for family in tree.families.values():
        native = project.args_header(headers, family.name).is_file()
        plans[family.name] = plan_images(tree, family, images, partial(mentioned_tiles, family))
        plan = plans[family.name]
        context = family_context(tree, family, plan, emit_cpp, shared_memory_bytes, native, digest, project.namespace)
        python = family_context(tree, family, plan, emit_py, shared_memory_bytes, False)
        _render_selector(jinja, context, python, outputs)
        if native:
            host.append(_render_launch(jinja, context, family, outputs))
            device += _render_instances(jinja, context, plan, outputs)
    _render_build(jinja, images, device, host, outputs)
    outputs.add("images.json", _images_json(plans, project.namespace))
    return Rendering(outputs, plans)


def _add(jinja: Environment, template: str, context: object, path: str, outputs: OutputSet) -> None:
    # asdict would copy nested contexts into dicts; the templates read attributes of the objects themselves.
    values = {name: getattr(context, name) for name in context.__dataclass_fields__}  # type: ignore[attr-defined]
    outputs.add(path, jinja.get_template(template).render(values))


def _render_selector(jinja: Environment, cpp: FamilyContext, python: FamilyContext, outputs: OutputSet) -> None:
    _add(jinja, "select.h.j2", cpp, f"{cpp.namespace}/generated/{cpp.family}_select.h", outputs)
    _add(jinja, "dispatcher.py.j2", python, f"python/{python.family}_dispatch.py", outputs)


def _render_launch(jinja: Environment, context: FamilyContext, family: Family, outputs: OutputSet) -> str:
    launch = launch_context(context, family.dtypes)
    source = f"{family.name}/launch.cpp"
    _add(jinja, "launch.h.j2", launch, f"{context.namespace}/generated/{family.name}_launch.h", outputs)
    _add(jinja, "family.h.j2", context, f"{context.namespace}/generated/{family.name}.h", outputs)
    _add(jinja, "launch.cpp.j2", launch, source, outputs)
    return source


def _render_instances(
    jinja: Environment, context: FamilyContext, plan: ImagePlan, outputs: OutputSet
) -> list[tuple[str, tuple[Image, ...]]]:
    sources = []
    for instance in instance_contexts(context):
        name = instance.tile.config_type
        _add(jinja, "tile.cuh.j2", instance, f"{context.namespace}/generated/{context.family}/{name}.cuh", outputs)
        source = f"{context.family}/{name}.cu"
        _add(jinja, "instantiate.cu.j2", instance, source, outputs)
        sources.append((source, tuple(plan.images[i] for i in plan.holders[instance.tile.id])))
    return sources


def _render_build(
    jinja: Environment,
    images: Sequence[Image],
    device: list[tuple[str, tuple[Image, ...]]],
    host: list[str],
    outputs: OutputSet,
) -> None:
    context = BuildContext(
        header=generated_header("build lists", ["specs"]),
        archs=tuple(dict.fromkeys(image.arch for image in images)),
        architectures=tuple(image.cmake for image in images),
        groups=group_contexts(device),
        host_sources=tuple(host),
    )
    _add(jinja, "archs.cmake.j2", context, "archs.cmake", outputs)
    _add(jinja, "files.cmake.j2", context, "files.cmake", outputs)


def _images_json(plans: dict[str, ImagePlan], namespace: str) -> str:
    """What the linked binary must hold: per family and image, the tiles."""
    families = {
        name: {
            image.name: [tile for tile, holders in plan.holders.items() if index in holders]
            for index, image in enumerate(plan.images)
        }
        for name, plan in plans.items()
    }
    return json.dumps({"schema": "images/1", "namespace": namespace, "families": families}, indent=2) + "\n"
