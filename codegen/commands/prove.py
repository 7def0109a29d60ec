"""`tilewright prove`: claims about a specs folder, for every M, N, K and SM count."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from ._common import fail, format_option, load_or_exit, pick_family, specs_option

if TYPE_CHECKING:
    from ..ir import Claim, SpecTree

EXIT_COUNTEREXAMPLE = 1
EXIT_UNKNOWN = 2


@click.command(name="prove")
@click.argument("claim_ids", metavar="[CLAIM_ID]...", nargs=-1)
@specs_option
@click.option("--base", metavar="BASE", help="Folder of specs or git revision that claims compare with.")
@click.option("--claim", "texts", metavar="TEXT", multiple=True, help="A further claim: KIND WORD... key=value...")
@click.option("--family", metavar="NAME", help="Family that --claim is about, where there are several.")
@click.option(
    "--timeout", type=click.FloatRange(0.01, 86_400), default=10.0, show_default=True, help="Seconds for each claim."
)
@format_option("text", "json")
def command(
    claim_ids: tuple[str, ...],
    specs: str,
    base: str | None,
    texts: tuple[str, ...],
    family: str | None,
    timeout: float,
    fmt: str,
) -> None:
    """Prove claims about a specs folder for every M, N, K and SM count.

    Without arguments all claims of the folder are proved; CLAIM_ID picks some of them, --claim adds one, such as
    --claim 'rule-fires gb10-full-wave sm121' or --claim 'only-archs-change sm121'.

    Exit status: 0 all proved, 1 a counterexample or an error, 2 an answer is unknown, or a claim that
    was asked for by name needs a --base.
    """
    import math

    from ..diagnostics import SpecError
    from ..prove import Bases, ProveError, Prover, prove_all
    from ..prove_report import render_json, render_text
    from ..smt_solve import EncodingError
    from ..smt_space import MissingSolverError, import_z3

    if math.isnan(timeout):
        raise click.BadParameter("a number of seconds is expected.", param_hint="--timeout")
    tree = load_or_exit(specs)
    try:
        import_z3()
        claims = _chosen(tree, claim_ids, texts, family)
        verdicts = prove_all(Prover(tree, Bases(specs, base), timeout), claims)
    except MissingSolverError as error:
        fail(str(error))
    except ProveError as error:
        fail(str(error))
    except EncodingError as error:
        fail(f"{error}.", "this is a bug of tilewright, not of the specs; please report it")
    except SpecError as error:
        click.echo(str(error), err=True)
        sys.exit(EXIT_COUNTEREXAMPLE)
    click.echo(render_json(tree, verdicts) if fmt == "json" else render_text(tree, verdicts, specs, base))
    statuses = {v.status for v in verdicts}
    if "counterexample" in statuses:
        sys.exit(EXIT_COUNTEREXAMPLE)
    if "unknown" in statuses or ("skipped" in statuses and (claim_ids or texts)):
        sys.exit(EXIT_UNKNOWN)


def _chosen(tree: SpecTree, ids: tuple[str, ...], texts: tuple[str, ...], family: str | None) -> list[Claim]:
    """The claims asked for: by id, from the command line, or all."""
    from ..claims import parse_claim_text
    from ..diagnostics import did_you_mean

    known = {claim.id: claim for claim in tree.claims}
    for name in ids:
        if name not in known:
            fail(f"there is no claim '{name}'.", did_you_mean(name, known) or f"claims: {', '.join(known) or 'none'}")
    chosen = [known[name] for name in ids]
    if texts:
        chosen += [parse_claim_text(text, tree, pick_family(tree, family)) for text in texts]
    if not chosen and not known:
        fail("the specs folder has no claims.", "write claims.yaml, or give one with --claim")
    return chosen or list(known.values())
