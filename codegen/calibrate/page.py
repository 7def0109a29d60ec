"""The report as one HTML file that needs nothing else: tables of the Markdown, pictures as inline SVG."""

from __future__ import annotations

import html
import re

from .analyse import Analysis
from .report import markdown

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-size: 13px }
td, th { border: 1px solid #ccc; padding: 2px 8px; text-align: left }
pre { background: #f6f6f6; padding: 1em; overflow-x: auto; font-size: 12px } blockquote { color: #a33; margin-left: 0 }
.table { overflow-x: auto } svg { max-width: 100%; height: auto }
"""


def page(found: Analysis) -> str:
    """A self-contained page. Without matplotlib it has no pictures and says so."""
    try:
        from .plots import pictures
    except ImportError:
        drawn = "<p>No pictures: matplotlib is not installed.</p>"
    else:
        drawn = "".join(f"<h3>{html.escape(title)}</h3>{svg}" for title, svg in pictures(found))
    body = "\n".join(_block(b) for b in re.split(r"\n\n(?=\S)", markdown(found).strip()))
    title = f"Calibration of {found.header.family}, {found.layer}, {found.header.device.arch}"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{STYLE}</style></head><body>\n{body}\n<h2>Pictures</h2>{drawn}\n</body></html>\n"
    )


def _block(text: str) -> str:
    if text.startswith("```"):
        return f"<pre>{html.escape(text.split(chr(10), 1)[1].rsplit('```', 1)[0])}</pre>"
    if text.startswith("#"):
        level = len(text) - len(text.lstrip("#"))
        return f"<h{level}>{_inline(text.lstrip('# '))}</h{level}>"
    if text.startswith("|"):
        return _html_table(text.splitlines())
    if text.startswith("> "):
        return f"<blockquote>{_inline(text[2:])}</blockquote>"
    return f"<p>{_inline(text)}</p>"


def _html_table(lines: list[str]) -> str:
    rows = [[c.replace("\\|", "|").strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    head = "".join(f"<th>{_inline(c)}</th>" for c in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{_inline(c)}</td>" for c in row) + "</tr>" for row in rows[2:])
    return f'<div class="table"><table><tr>{head}</tr>{body}</table></div>'


def _inline(text: str) -> str:
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", html.escape(text))
