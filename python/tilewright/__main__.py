"""`python -m tilewright`: doctor and bench, and every verb of the `tilewright` command (explain, map, ...)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ._version import __version__

OWN_VERBS = ("doctor", "bench")
FAMILIES = ("gemm_4bit", "gemm_fp8", "gemm_nvfp4")


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Every other verb is one of the command tilewright: explain, map, validate, ...; see tilewright --help.",
)
@click.version_option(__version__, prog_name="tilewright")
def main() -> None:
    """GEMM kernels in 4 and 8 bits: what runs on this machine, and how fast."""


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--no-run", is_flag=True, help="Launch nothing: leave the op check out.")
def doctor(as_json: bool, no_run: bool) -> None:
    """Say what runs here and what is missing. Exits 1 if the op gives a wrong result or fails."""
    from ._doctor import examine

    report = examine(run=not no_run)
    click.echo(report.to_json() if as_json else str(report))
    if not report.healthy:
        sys.exit(1)


@main.command()
@click.option("--shape", "shapes", multiple=True, metavar="NxK", help="A weight; may be repeated.")
@click.option("--rows", default="1,4,16,64,256,1024,4096", show_default=True, help="Values of M.")
@click.option("--dtype", type=click.Choice(["float16", "bfloat16"]), default="bfloat16", show_default=True)
@click.option("--family", type=click.Choice(FAMILIES), default=FAMILIES[0], show_default=True)
@click.option("--quant-type", type=click.Choice(["nf4", "fp4", "e2m1"]), help="Of gemm_4bit.  [default: nf4]")
@click.option("--layout", type=click.Choice(["packed", "prepacked"]), help="Of gemm_4bit.  [default: packed]")
@click.option("--scaling", type=click.Choice(["tensor", "row", "block"]), help="Of gemm_fp8.  [default: row]")
@click.option("--device", default=0, show_default=True, help="Number of the CUDA device.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Also draw speed over M to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(
    shapes: tuple[str, ...],
    rows: str,
    dtype: str,
    family: str,
    quant_type: str | None,
    layout: str | None,
    scaling: str | None,
    device: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Time a product on this card beside dense cuBLAS and those of others: torch, bitsandbytes, gemlite."""
    from . import _bench

    try:
        problems = _bench.problems(shapes, rows)
        if plot is not None:
            _bench.check_plot(plot)
        result = _bench.run(problems, _bench.subject(family, dtype, quant_type, scaling, layout), device)
    except _bench.RefusedError as refusal:
        raise click.ClickException(str(refusal)) from None
    click.echo(result.to_json() if as_json else str(result))
    if plot is not None:
        _bench.draw(result, plot)
        click.echo(f"wrote {plot}", err=as_json)


def run() -> None:
    """Runs an own verb, or hands everything over to the tilewright command."""
    verb = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    if verb is None or verb in OWN_VERBS:
        main(prog_name="python -m tilewright")
    try:
        from tilewright_codegen.cli import main as forwarded
    except ImportError as error:
        sys.exit(f"python -m tilewright {verb}: the generator is not installed here ({error})")
    forwarded(prog_name="python -m tilewright")


if __name__ == "__main__":
    run()
