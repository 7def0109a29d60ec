"""`tilewright render`: generate the sources of a build, or check the committed goldens."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ._common import fail, load_or_exit, specs_option

GOLDENS = "tests/golden/rendered"


@click.command()
@specs_option
@click.option("--out", type=click.Path(file_okay=False), default=GOLDENS, show_default=True, help="Folder to write.")
@click.option("--archs", default="all", show_default=True, help='Images to build for, such as "80;90a" or "all".')
@click.option("--cuda", help="CUDA version of the compiler, such as 13.5; archs it cannot compile are errors.")
@click.option("--namespace", default="tilewright", show_default=True, help="C++ namespace of the kernels.")
@click.option(
    "--headers",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with NAMESPACE/FAMILY/args.h, of a library with kernels of its own.  [default: those of this package]",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 with a diff when the folder is out of date.")
def command(
    specs: str, out: str, archs: str, cuda: str | None, namespace: str, headers: Path | None, check: bool
) -> None:
    """Generate launch table, selector, tile configs, instantiations and build lists."""
    from ..archs import ArchTokenError, check_toolkit
    from ..images import images_of
    from ..project import Project, ProjectError
    from ..render import render
    from ..variants import parse_archs

    tree = load_or_exit(specs)
    try:
        wanted = parse_archs(archs, tree, lambda message: click.echo(f"warning: {message}", err=True))
        if cuda is not None:
            check_toolkit(wanted, cuda)
        project = Project(namespace, headers)
        project.check(list(tree.families))
    except (ArchTokenError, ProjectError) as error:
        fail(str(error))
    outputs = render(tree, images_of(wanted), project=project).outputs
    if not check:
        changed = outputs.write(Path(out))
        click.echo(f"{len(outputs.files)} files, {len(changed)} changed, in {out}")
        return
    drift = outputs.drift(Path(out))
    if drift:
        click.echo(drift, nl=False)
        options = "" if archs == "all" else f' --archs "{archs}"'
        click.echo(f"error: {out} is out of date; mend it with: tilewright render --out {out}{options}", err=True)
        sys.exit(1)
    click.echo(f"{len(outputs.files)} files are up to date in {out}")
