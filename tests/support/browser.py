"""Pages in a real browser without a window: what they take up there, and what they look like."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Shown", "screenshot", "shown"]

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

MEASURE = """
<script>
function scrolls(element) {
  for (let each = element; each; each = each.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
  return false;
}
function measured(frame) {
  const page = frame.contentDocument, width = frame.clientWidth, name = each => each.outerHTML.slice(0, 120);
  const all = [...page.querySelectorAll("body *")];
  const box = each => each.getBoundingClientRect();
  const beyond = all.filter(each => (box(each).right > width + 1 || box(each).left < -1) && !scrolls(each));
  const drawings = [...page.querySelectorAll("svg")];
  const cut = drawings.flatMap(drawing => [...drawing.querySelectorAll("text")].filter(text =>
    box(text).right > box(drawing).right + 1 || box(text).left < box(drawing).left - 1));
  return {
    width: page.documentElement.scrollWidth, height: page.documentElement.scrollHeight,
    beyond: beyond.map(name), cut: cut.map(name), words: page.body.innerText.split(/\\s+/).length,
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
    """How a page is shown.

    Attributes
    ----------
    width, height
        What it takes up, in pixels.
    beyond
        What begins or ends outside of the window and cannot be scrolled to by itself.
    cut
        Text of drawings that they cut off.
    words
        How many can be read.
    drawings
        How many can be seen.
    """

    width: int
    height: int
    beyond: list[str]
    cut: list[str]
    words: int
    drawings: int


def shown(pages: Mapping[str, str], width: int, folder: Path) -> dict[str, Shown]:
    """Open pages in windows of a width, and return how each is shown."""
    frames = (
        f'<iframe id="{html.escape(name)}" style="border: 0; width: {width}px" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
    )
    place = folder / "pages.html"
    place.write_text(f'<!doctype html><meta charset="utf-8"><body>{"".join(frames)}{MEASURE}</body>', encoding="utf-8")
    answer = _browse("--dump-dom", str(place))
    found = re.search(r'<pre id="found">(.*?)</pre>', answer, re.DOTALL)
    assert found, answer[-2_000:]
    return {name: Shown(**each) for name, each in json.loads(html.unescape(found[1])).items()}


def screenshot(page: str, width: int, height: int, folder: Path) -> bytes:
    """Return what a window of a size shows of a page, as PNG."""
    place, picture = folder / "page.html", folder / "page.png"
    frame = f'<iframe style="border: 0; width: {width}px; height: {height}px" srcdoc="{html.escape(page)}"></iframe>'
    place.write_text(f'<!doctype html><meta charset="utf-8"><body style="margin: 0">{frame}</body>', encoding="utf-8")
    _browse(f"--screenshot={picture}", f"--window-size={width},{height}", "--hide-scrollbars", str(place))
    return picture.read_bytes()


def _browse(*arguments: str) -> str:
    """Run the browser, and return what it writes."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    assert browser, f"No browser is there: install one of {', '.join(NAMES)} (on Debian and Ubuntu, chromium)."
    # Root may not use the sandbox, and pages of ours have no scripts.
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [browser, "--headless", "--disable-gpu", *alone, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
