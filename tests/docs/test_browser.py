"""The built site in a real headless browser: navigation, search, pictures."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)
# Runs in each page and sends the server what a reader would see.
LOOK = """<script>addEventListener("load", async () => {
  const pause = ms => new Promise(done => setTimeout(done, ms));
  const all = (selector, what) => [...document.querySelectorAll(selector)].map(what);
  const titles = () => all(".md-search-result__item h1, .md-search-result__item h2", h => h.textContent);
  const word = new URLSearchParams(location.search).get("look");
  if (word) {
    const box = document.querySelector(".md-search__input");
    document.getElementById("__search").click();
    const meta = document.querySelector(".md-search-result__meta");
    const answered = () => /matching document/.test(meta.textContent);
    for (let i = 0; i < 100 && !answered(); i++) {
      box.focus(); box.value = word; box.dispatchEvent(new Event("keyup"));
      await pause(100);
    }
  }
  const seen = {
    pictures: all("article img", i => [i.getAttribute("src"), i.naturalWidth]),
    nav: all("nav.md-nav--primary a.md-nav__link", a => a.getAttribute("href")),
    found: titles(),
  };
  await fetch("/seen", {method: "POST", body: JSON.stringify(seen)});
})</script>"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium"),
    pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs mkdocs-material"),
]


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the site, with LOOK in every page, and takes what it sends."""

    seen: queue.Queue[dict[str, Any]] = queue.Queue()

    def do_GET(self) -> None:
        file = Path(self.translate_path(self.path))
        page = file / "index.html" if file.is_dir() else file
        if page.suffix != ".html" or not page.is_file():
            super().do_GET()
            return
        body = page.read_text().replace("</body>", LOOK + "</body>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.seen.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("matplotlib", reason="the decision maps need it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(ROOT / "mkdocs.yml"), "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def look(url: str, profile: Path) -> dict[str, Any]:
    """What a reader sees on a page."""
    assert BROWSER is not None
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    # A group of its own: the command may be a shell script, which would leave the browser behind.
    browser = subprocess.Popen(
        [BROWSER, *flags, url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return Handler.seen.get(timeout=60)
    finally:
        os.killpg(browser.pid, signal.SIGTERM)
        browser.wait()


def test_navigation_leads_to_every_guide(address: str, tmp_path: Path) -> None:
    links = set(look(address, tmp_path)["nav"])
    guides = {f"{page.stem}/" for page in (ROOT / "docs").glob("*.md")} - {"index/"}
    assert guides <= links
    assert {"reference/keys/", "reference/maps/"} <= links


def test_pictures_are_drawn(address: str, tmp_path: Path) -> None:
    pictures = look(address + "reference/maps/", tmp_path)["pictures"]
    assert len(pictures) >= 4
    assert all(width > 300 for _, width in pictures), pictures


def test_search_finds_a_function_and_a_diagnostic(address: str, tmp_path: Path) -> None:
    assert any("Checkpoints" in title for title in look(address + "?look=bitsandbytes", tmp_path)["found"])
    assert any("E300" in title or "Diagnostics" in title for title in look(address + "?look=E300", tmp_path)["found"])
    assert look(address + "?look=zzzznothing", tmp_path)["found"] == []
