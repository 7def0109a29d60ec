"""`tilewright decide FAMILY`: a batch of problems as JSON lines."""

from __future__ import annotations

import sys

import click

from ._common import load_or_exit, pick_family, specs_option


@click.command("decide")
@click.argument("family")
@specs_option
def command(family: str, specs: str) -> None:
    """Decide problems of FAMILY: a JSON object a line on stdin, one a line on stdout, in the same order.

    A problem has `cc` ("12.1" or [12, 1]) and the family's inputs, such as num_sms, dtype, M, N, K and blocksize.
    A cc without a profile is decided as `unknown`. A line that is not a problem gives an object with `error` and
    `line`, and the exit status is 1 at the end.
    """
    from ..decide import BatchDecider

    tree = load_or_exit(specs)
    decider = BatchDecider(tree, pick_family(tree, family))
    write = sys.stdout.write
    for text in decider.run(sys.stdin.buffer):
        write(text + "\n")
    sys.stdout.flush()
    if decider.errors:
        sys.exit(1)
