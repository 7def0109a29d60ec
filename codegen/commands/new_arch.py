"""`tilewright new-arch`."""

from __future__ import annotations

import click

from ._common import fail, load_or_exit, pick_arch, specs_option


@click.command()
@click.argument("name")
@click.option("--like", required=True, help="Arch whose sections the new one joins.")
@click.option("--sms", "sms", type=click.IntRange(1), multiple=True, help="SM count of a product; may be repeated.")
@specs_option
def command(name: str, like: str, sms: tuple[int, ...], specs: str) -> None:
    """Add arch NAME, such as sm122, to every section that lists its model, all of it assumed."""
    from ..diagnostics import SpecError
    from ..scaffold import ScaffoldError, plan_arch, try_edit

    tree = load_or_exit(specs)
    try:
        plan = plan_arch(tree, name, pick_arch(tree, like), sms or None)
        changed, _ = try_edit(specs, plan.insertions, {plan.profile_path: plan.profile_text})
    except ScaffoldError as error:
        fail(f"{error}.")
    except SpecError as error:
        fail(f"the specs would have been wrong, so nothing was changed:\n{error}")
    click.echo(f"wrote {plan.profile_path} (status: assumed); check cc, gencode, min_cuda and sm_counts")
    for path in changed:
        click.echo(f"changed {path}")
    click.echo(f"{name} joined {len(plan.joined)} sections of {like}: {', '.join(plan.joined)}")
    click.echo("next: tilewright validate, then tilewright diff HEAD")
