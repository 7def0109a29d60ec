"""The `tilewright` command: one verb a module, imported only when it is asked for."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os

import click

VERBS = {
    "validate": "Check a specs folder; report every finding with its place.",
    "explain-code": "Say what a diagnostic code means and how to mend it.",
    "explain": "Say what is chosen for one problem, by which rule, and where that changes.",
    "decide": "Decide a batch of problems: JSON lines in, JSON lines out.",
    "decisions": "Enumerate a grid of problems and show the decisions as bands of M.",
    "diff": "Show which decisions change against a git revision or another folder.",
    "prove": "Prove claims about a specs folder for every M, N, K and SM count.",
    "map": "Draw the decision map of an arch, or only what moved.",
    "matrix": "Show the support matrix: arch x family x engine x status.",
    "model": "Predict the throughput of tcgen05 tiles on a chip from published figures.",
    "resources": "Show what each tile needs on each arch: shared memory, registers, tensor memory.",
    "emulate": "Run kernels on the host under random schedules and report what goes wrong.",
    "render": "Generate the sources of the build, or check the committed ones.",
    "calibrate": "Measure what a layer could choose, and write the rules that the times defend.",
    "new-arch": "Add an arch profile and put it into the sections of a similar arch.",
    "new-tile": "Add a tile to a family's table.",
    "reference": "Print the reference of all spec keys.",
    "cmake-dir": "Print the folder of the CMake modules, for a library that builds its own kernels.",
    "wheel-check": "Compare a built wheel with the specs inside it.",
}


class LazyGroup(click.Group):
    """Lists verbs from a table and imports a verb's module when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        # Pydantic would look through every installed distribution for plugins: a tenth of the time of `validate`.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        module = importlib.import_module(f".commands.{cmd_name.replace('-', '_')}", __package__)
        command: click.Command = module.command
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            place = f"{error.filename}: " if error.filename else ""
            click.echo(f"error: {place}{error.strerror or error}.", err=True)
            ctx.exit(1)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = click.utils.make_str(args[0]) if args else ""
        if args and name not in VERBS:
            from .diagnostics import did_you_mean

            hint = did_you_mean(name, VERBS)
            ctx.fail(f"there is no command '{name}'." + (f" {hint}" if hint else ""))
        return super().resolve_command(ctx, args)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """The version of the package, or of the generator where that is installed alone."""
    if not wanted or ctx.resilient_parsing:
        return
    import importlib.metadata

    version = "of a source tree"
    for name in ("tilewright-codegen", "tilewright"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            version = importlib.metadata.version(name)
    click.echo(f"tilewright, version {version}")
    ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Specs of GEMM kernels: check them, prove them, draw them, generate from them."""
