"""E1xx: a file cannot be read as a spec."""

from __future__ import annotations

from .entry import Code

READING = (
    Code(
        "E100",
        "the file cannot be read",
        "The folder or file is missing, empty, over 256 KiB, nested too deeply, not UTF-8, starts with a byte order\n"
        "mark, or is not YAML. Nothing else in that file is checked.",
        "sections:\n\t- section: floor        # a tab where YAML wants spaces",
        "save the file as plain UTF-8 and fix the place that is named; indent with spaces.",
    ),
    Code(
        "E101",
        "unknown key",
        "Every mapping has a closed set of keys, so that a misspelt one cannot be ignored silently.",
        "- {id: tiny-m, wehn: [M <= 4], m_cap: always}",
        "use the key that is suggested; specs/README.md lists them all.",
    ),
    Code(
        "E102",
        "key given twice",
        "YAML readers keep one of two equal keys and drop the other. Which one is an accident.",
        "facts:\n  n_blocks: ceil_div(N, 64)\n  n_blocks: ceil_div(N, 128)",
        "drop or rename one of the two.",
    ),
    Code(
        "E103",
        "a plain value that YAML versions read differently",
        "`on`, `no`, `~`, `0x10`, `010`, `1:30`, `1e3`, `2026-08-01` and an unquoted 12.9 mean different things to\n"
        "different YAML readers: a boolean, a null, octal, base 60, a float, a date. 12.10 as a float is 12.1.",
        "min_cuda: 12.10",
        'quote it when text is meant ("12.10"); otherwise write true, false, null or a plain decimal.',
    ),
    Code(
        "E104",
        "a value or key does not fit",
        "A key is missing, or a value has the wrong type, is out of range, or is not one of the allowed words.",
        "- section: floor\n  for: all               # `rules` is missing",
        "give what the message expects; specs/README.md describes every key.",
    ),
    Code(
        "E105",
        "anchors, aliases, merge keys and tags are not allowed",
        "They make one line change many places, so that a diff no longer shows what it changes.",
        "rules: &shared\n  - {id: tiny-m, m_cap: always}",
        "write the value out where it is used.",
    ),
)
