"""`tilewright wheel-check`: is what was asked for what is in the wheel?"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ._common import fail, format_option


@click.command("wheel-check")
@click.argument("wheel", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option("text", "json")
@click.option("--archs", help="Arch list the wheel must be for.  [default: its variant's, else what it declares]")
@click.option(
    "--instructions",
    type=click.Choice(["sample", "all", "none"]),
    default="sample",
    show_default=True,
    help="Kernels whose machine code is read: one of each engine and image, every one, or none.",
)
@click.option("--cuobjdump", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="cuobjdump to use.")
@click.option("--complete", is_flag=True, help="Fail also when something could not be checked.")
def command(
    wheel: Path, fmt: str, archs: str | None, instructions: str, cuobjdump: Path | None, complete: bool
) -> None:
    """Compare a built WHEEL with the specs inside it.

    Reads images, kernels and instructions from the machine code, and looks at exports, needed libraries, glibc floor,
    sizes, licences and metadata. Exit status 1 on any difference. What a missing cuobjdump leaves unchecked is listed.
    """
    from ..wheelcheck import Options, WheelError, check_wheel
    from ..wheelcheck.report import as_json, as_text

    try:
        report = check_wheel(wheel, Options(archs, cuobjdump, instructions))  # type: ignore[arg-type]
    except WheelError as error:
        fail(f"{error}.")
    click.echo(as_json(report) if fmt == "json" else as_text(report))
    if report.problems or (complete and report.skipped):
        sys.exit(1)
