"""`tilewright explain M N K`: what is chosen for one problem, why, and how near that is to changing."""

from __future__ import annotations

import click

from ._common import fail, format_option, load_or_exit, pick_arch, pick_family, pick_words, specs_option


@click.command("explain")
@click.argument("m", type=int, metavar="M")
@click.argument("n", type=int, metavar="N")
@click.argument("k", type=int, metavar="K")
@click.option("--arch", required=True, help="Arch profile, such as sm121.")
@click.option("--sms", type=int, help="SMs of the card.  [default: the profile's first count]")
@click.option("--dtype", help="Element type of the activations.  [default: bf16, or the family's first]")
@click.option("--blocksize", type=int, default=64, show_default=True, help="Quantisation blocksize.")
@click.option(
    "--set", "--input", "words", multiple=True, metavar="INPUT=WORD", help="A further input, such as quant_type=fp4."
)
@click.option("--family", help="Family; needed only when there are several.")
@specs_option
@format_option("text", "json")
def command(
    m: int, n: int, k: int, arch: str, sms: int | None, dtype: str | None, blocksize: int, words: tuple[str, ...],
    family: str | None, specs: str, fmt: str,
) -> None:  # fmt: skip
    """Explain the decision for activations of M x K and a weight of N x K."""
    from ..decide import DTYPE_ALIASES
    from ..evaluate import ProblemError
    from ..explain import explain
    from ..explain_report import RENDERERS

    tree = load_or_exit(specs)
    chosen = pick_family(tree, family)
    profile = pick_arch(tree, arch).profile
    problem: dict[str, int | str] = {
        "M": m,
        "N": n,
        "K": k,
        "num_sms": sms if sms is not None else profile.sm_counts[0],
    }
    problem["dtype"] = dtype or ("bf16" if "bf16" in chosen.dtypes else chosen.dtypes[0])
    problem["dtype"] = DTYPE_ALIASES.get(str(problem["dtype"]), problem["dtype"])
    problem["blocksize"] = blocksize
    problem.update(pick_words(chosen, words))
    problem = {name: value for name, value in problem.items() if name in chosen.input_by_name}
    try:
        click.echo(RENDERERS[fmt](explain(tree, chosen, arch, problem)))
    except (ProblemError, KeyError) as error:
        fail(f"{error.args[0]}.")
