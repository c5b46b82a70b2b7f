"""Every page of the documentation in a real browser, as wide as a desk and as a phone."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from support.browser import Shown, shown_of_site

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
WIDTHS = {"desk": 1440, "phone": 390}
AT_ONCE = 8


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site."""
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@cache
def measures(site: Path, width: int) -> dict[str, Shown]:
    """Return the measures of all pages."""
    pages = sorted(str(page.relative_to(site)) for page in site.rglob("index.html"))
    assert len(pages) > 60
    parts = [pages[start : start + AT_ONCE] for start in range(0, len(pages), AT_ONCE)]
    return {name: each for part in parts for name, each in shown_of_site(site, part, width).items()}


@pytest.mark.parametrize("window", WIDTHS)
def test_nothing_is_cut_off_and_nothing_overlaps(site, window):
    width = WIDTHS[window]
    problems = {
        name: each
        for name, each in measures(site, width).items()
        if each.width > width or each.beyond or each.cut or each.overlapping or each.words < 20
    }
    assert problems == {}


def test_code_fits_beside_the_menus(site):
    """Only examples in docstrings, which may be wider, need a scroll bar on a desk."""
    wide = {name: each.wide for name, each in measures(site, WIDTHS["desk"]).items() if each.wide}
    assert {name: blocks for name, blocks in wide.items() if not name.startswith("reference/")} == {}
