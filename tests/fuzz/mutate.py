"""Inputs from a corpus: bytes cut, doubled, exchanged and set beside words of the format. Seeded, so that any input can
be made again from its number."""

from __future__ import annotations

import random
from collections.abc import Sequence

WORDS = {
    "specs": (
        b": ", b"- ", b"\n", b"\n  ", b"[", b"]", b"{", b"}", b"&a ", b"*a", b"!!python/object:os.system ", b"<<: ",
        b"---\n", b"...\n", b"|\n", b">-\n", b"'", b'"', b"\t", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc2\x85",
        b"\xe2\x80\xa8", b"schema: layer/1\n", b"schema: arch/1\n", b"null", b"0x1F", b"1:30", b"1e999", b"9" * 50,
        b"-0", b".inf", b"? ", b"%YAML 9.9\n", b"%TAG ! x:\n", b"# ", b"\\x41", b"\\ud800", b"rules: ", b"when: ",
        b"[" * 40, b"{a: " * 30, b"- " * 40, b"  " * 60,
    ),
    "rules": (
        b"M", b"N", b"K", b"num_sms", b"tile.kc", b" <= ", b" < ", b" == ", b" != ", b" >= ", b" > ", b" + ", b" * ",
        b" // ", b" % ", b"ceil_div(", b", ", b")", b"(", b"not ", b"0", b"1", b"4_096", b"9223372036854775807",
        b"9223372036854775808", b"1__0", b"007", b"-1", b"\xc2\xb2", b"\xd9\xa3", b"\n", b"\t", b"and", b"or",
        b"M + " * 60, b"M * " * 60, b"(" * 99,
    ),
}  # fmt: skip


def mutant(target: str, corpus: Sequence[bytes], number: int) -> bytes:
    """The input of that number."""
    random_ = random.Random(f"{target}/{number}")
    data = bytearray(random_.choice(corpus))
    for _ in range(random_.choice((1, 1, 2, 3, 5, 9))):
        _change(data, WORDS[target], corpus, random_)
    return bytes(data[:20_000])


def _change(data: bytearray, words: Sequence[bytes], corpus: Sequence[bytes], random_: random.Random) -> None:
    at = random_.randint(0, len(data))
    end = min(len(data), at + random_.choice((1, 1, 2, 4, 9, 30, 200)))
    kind = random_.randrange(7)
    if kind == 0:
        del data[at:end]
    elif kind == 1:
        data[at:at] = random_.choice(words)
    elif kind == 2:
        data[at:end] = random_.choice(words)
    elif kind == 3:
        data[at:at] = data[at:end] * random_.choice((1, 1, 2, 8))
    elif kind == 4 and data:
        data[at % len(data)] ^= 1 << random_.randrange(8)
    elif kind == 5:
        other = random_.choice(corpus)
        start = random_.randint(0, len(other))
        data[at:end] = other[start : start + random_.choice((3, 20, 200))]
    else:
        data[at:at] = random_.randbytes(random_.choice((1, 2, 4, 12)))
