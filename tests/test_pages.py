"""The pages that plans, reports, pipelines and streams make, in a real browser: as wide as a screen, and as a phone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import juncture as jn
from juncture.pipeline.example import write_example
from juncture.streams.progress import SideProgress
from support.browser import screenshot, shown

pytestmark = pytest.mark.nightly

WIDTHS = {"screen": 1280, "phone": 390}

LEFT = pa.table({"ts": range(1_000), "a rather long name of a key": [i % 3 for i in range(1_000)], "v": range(1_000)})
RIGHT = pa.table({"ts": range(0, 1_000, 3), "a rather long name of a key": [0] * 334, "w": range(334)})
ASOF = jn.Asof(on="ts", by="a rather long name of a key", tolerance=5)
WHERE = jn.Where("l.ts < r.ts AND l.v > r.w AND abs(l.v - r.w) < 10", by="a rather long name of a key")


def example(folder: Path) -> str:
    """Return the page of the pipeline that `juncture init` writes."""
    write_example(folder)
    return jn.Pipeline.from_toml(folder / "juncture.toml").explain(format="html")


def micro_batch(number: int) -> jn.StreamProgress:
    """Return what a micro-batch of a query did whose right side is behind."""
    started = datetime(2026, 5, 4, 10, tzinfo=UTC) + timedelta(seconds=number)
    sides = tuple(
        SideProgress(name=name, rows=1_000 + number % 7, last=started - late, lag=late)
        for name, late in (("left", timedelta(0)), ("right", timedelta(seconds=number)))
    )
    return jn.StreamProgress(
        batch=number,
        started=started,
        duration_s=0.5 + number % 3 / 10,
        sides=sides,
        output_rows=900,
        state_rows=40_000 + 900 * number,
        state_bytes=1_200_000 + 30_000 * number,
        late_rows=0,
        watermark=started - timedelta(seconds=number + 5),
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """The pages, by what they show."""
    many = {
        "w": jn.Right(RIGHT, ASOF, check_available_at="w"),
        "windows": jn.Right(RIGHT, jn.Range(on="ts", lower=-5, upper=0, agg={"*": "count"})),
    }
    return {
        "as-of": jn.plan(LEFT, RIGHT, ASOF).explain(format="html"),
        "predicate": jn.plan(LEFT, RIGHT, WHERE).explain(format="html"),
        "analysis": jn.plan(LEFT, RIGHT, ASOF).analyze().explain(format="html"),
        "many": jn.plan_many(LEFT, many).explain(format="html"),
        "match report": jn.plan_many(LEFT, many).match_report().export(format="html"),
        "stream": jn.stream_page(micro_batch(number) for number in range(40)),
        "pipeline": example(tmp_path_factory.mktemp("example")),
    }


@pytest.mark.parametrize("window", WIDTHS)
def test_nothing_is_cut_off(pages, window, tmp_path):
    width = WIDTHS[window]
    for name, found in shown(pages, width, tmp_path).items():
        assert found.width <= width, name
        assert not found.beyond, name
        assert not found.cut, name
        assert found.words > 50, name
        assert found.drawings == pages[name].count("<svg"), name


@pytest.mark.parametrize("window", WIDTHS)
def test_there_is_something_to_see(pages, window, tmp_path):
    blank = screenshot("<!doctype html>", WIDTHS[window], 1_500, tmp_path)
    for name, page in pages.items():
        picture = screenshot(page, WIDTHS[window], 1_500, tmp_path)
        assert len(picture) > 5 * len(blank), name
