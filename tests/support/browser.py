"""Pages in a headless browser: their measures and pictures."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

__all__ = ["Shown", "screenshot", "screenshot_of_site", "shown", "shown_of_site"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

ALONE = (
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)

MEASURE = """
<script>
function scrolls(element) {
  for (let each = element; each; each = each.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
  return false;
}
function isShown(element) {
  const box = element.getBoundingClientRect();
  return box.width > 1 && box.height > 1 && getComputedStyle(element).visibility != "hidden";
}
function measured(frame) {
  const page = frame.contentDocument, width = frame.clientWidth, name = each => each.outerHTML.slice(0, 120);
  const part = page.querySelector(".md-content") ?? page.body;
  const all = [...part.querySelectorAll("*")].filter(isShown);
  const box = each => each.getBoundingClientRect();
  const beyond = all.filter(each => (box(each).right > width + 1 || box(each).left < -1) && !scrolls(each));
  const drawings = [...part.querySelectorAll("svg")];
  const cut = drawings.flatMap(drawing => [...drawing.querySelectorAll("text")].filter(text =>
    box(text).right > box(drawing).right + 1 || box(text).left < box(drawing).left - 1));
  const clipped = all.filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth
    && ["hidden", "clip"].includes(getComputedStyle(each).overflowX));
  const wide = [...part.querySelectorAll("pre, pre code")].filter(each => each.scrollWidth > each.clientWidth + 1);
  const blocks = all.filter(each => each.matches("h1, h2, h3, h4, p, pre, ul, ol, table"));
  const overlapping = blocks.filter((each, i) => each.matches("h1, h2, h3, h4") && blocks[i + 1]
    && box(each).bottom > box(blocks[i + 1]).top + 1);
  return {
    width: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight,
    beyond: beyond.map(name), cut: [...cut, ...clipped].map(name), wide: wide.map(each => each.innerText.slice(0, 200)),
    overlapping: overlapping.map(name), words: page.body.innerText.split(/\\s+/).length,
    drawings: drawings.filter(each => box(each).width * box(each).height > 0).length,
  };
}
onload = () => {
  const found = {};
  for (const frame of document.querySelectorAll("iframe")) found[frame.id] = measured(frame);
  document.body.insertAdjacentHTML("beforeend", "<pre id=found></pre>");
  document.getElementById("found").textContent = JSON.stringify(found);
}
</script>
"""


@dataclass(frozen=True)
class Shown:
    """How a page is shown. Elements are named by the start of their HTML.

    Attributes
    ----------
    width, height
        Of the page, in pixels.
    beyond
        Elements outside of the window that no scrollable box contains.
    cut
        Texts that a drawing or a box without a scroll bar cuts off.
    wide
        Blocks of code that need a scroll bar.
    overlapping
        Headings that overlap the next block.
    words, drawings
        Numbers of visible words and drawings.
    """

    width: int
    height: int
    beyond: list[str]
    cut: list[str]
    wide: list[str]
    overlapping: list[str]
    words: int
    drawings: int


def shown(pages: Mapping[str, str], width: int, folder: Path) -> dict[str, Shown]:
    """Open pages in windows of a width, and return how each is shown."""
    frames = {name: f'srcdoc="{html.escape(page)}"' for name, page in pages.items()}
    place = folder / "pages.html"
    place.write_text(_frames(frames, width), encoding="utf-8")
    return _measures(str(place))


def shown_of_site(site: Path, pages: Sequence[str], width: int) -> dict[str, Shown]:
    """Open pages of a site in windows of a width, and return how each is shown."""
    frames = {page: f'src="/{page}"' for page in pages}
    (site / "look.html").write_text(_frames(frames, width), encoding="utf-8")
    with _served(site) as address:
        return _measures(f"{address}/look.html")


def screenshot(page: str, width: int, height: int, folder: Path) -> bytes:
    """Return a picture of a page in a window, as PNG."""
    place = folder / "page.html"
    frame = f'<iframe style="border: 0; width: {width}px; height: {height}px" srcdoc="{html.escape(page)}"></iframe>'
    place.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin: 0">{frame}</body>', encoding="utf-8")
    return _picture(str(place), width, height, folder / "page.png")


def screenshot_of_site(site: Path, page: str, width: int, height: int, picture: Path) -> None:
    """Write a picture of a page of a site, as PNG."""
    frame = f'<iframe style="border: 0; width: {width}px; height: {height}px" src="/{page}"></iframe>'
    (site / "look.html").write_text(f'<!doctype html><body style="margin: 0">{frame}</body>', encoding="utf-8")
    with _served(site) as address:
        _picture(f"{address}/look.html", width, height, picture)


def _frames(frames: Mapping[str, str], width: int) -> str:
    """Return a page that opens other pages in frames, and measures them."""
    opened = (
        f'<iframe id="{html.escape(name)}" style="border: 0; width: {width}px" {source}></iframe>'
        for name, source in frames.items()
    )
    return f'<!doctype html><meta charset="utf-8"><body>{"".join(opened)}{MEASURE}</body>'


def _measures(address: str) -> dict[str, Shown]:
    answer = _browse("--dump-dom", address)
    found = re.search(r'<pre id="found">(.*?)</pre>', answer, re.DOTALL)
    assert found, answer[-2_000:]
    return {name: Shown(**each) for name, each in json.loads(html.unescape(found[1])).items()}


def _picture(address: str, width: int, height: int, picture: Path) -> bytes:
    _browse(f"--screenshot={picture}", f"--window-size={width},{height}", address)
    return picture.read_bytes()


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _browse(*arguments: str) -> str:
    """Run the browser with a profile of its own, and return its output."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    assert browser, f"No browser found. Install one of {', '.join(NAMES)} (on Debian and Ubuntu, chromium)."
    # Root may not use the sandbox, and only pages of this project are opened.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *ALONE, *sandbox, f"--user-data-dir={profile}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
