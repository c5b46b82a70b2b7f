"""Runs the scenarios of the benchmark of joins of streams, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from juncture_benchmarks.benchmark import Options
from juncture_benchmarks.harness import circumstances
from juncture_benchmarks.stream.grid import Cell, cells, measure_cell
from juncture_benchmarks.stream.long import (
    ASOF_BATCH,
    LONG_BATCH,
    LONG_ROWS,
    asof_beside_batch,
    in_process,
    long_stream,
)

__all__ = ["ASOF", "LONG", "run_scenarios", "scenario_names"]

LONG, ASOF = "local-long", "local-asof"
_TITLES = {
    LONG: f"two streams of {LONG_ROWS:,} rows in batches of {LONG_BATCH:,}",
    ASOF: f"an as-of join of streams in batches of {ASOF_BATCH:,}, beside that of tables",
}


def scenario_names(_scale: str) -> list[str]:
    """Return the names of all scenarios."""
    return [*(cell.name for cell in cells()), LONG, ASOF]


def run_scenarios(names: Sequence[str], options: Options) -> Iterator[dict[str, Any]]:
    """Measure some scenarios, and yield their results."""
    chosen = [cell for cell in cells() if cell.name in names]
    measured = in_process(measure_cell, *((cell, options.repeat) for cell in chosen))
    for cell, entries in zip(chosen, measured, strict=True):
        yield _of_cell(cell, entries, options)
    if LONG in names:
        yield from (_single(LONG, each, options) for each in in_process(long_stream, (LONG_ROWS,)))
    if ASOF in names:
        asof = in_process(asof_beside_batch, ("small", options.data, options.repeat))
        yield from (_single(ASOF, each, options) for each in asof)


def _of_cell(cell: Cell, entries: list[dict[str, Any]], options: Options) -> dict[str, Any]:
    facts = {"batch_rows": cell.batch_rows, "keys": cell.keys, "rows": cell.rows}
    for entry in entries:
        options.announce(f"{cell.name}  {entry['title']}: {entry['status']}, {entry['median']['batch_us']:.1f} µs")
    return {**_circumstances(cell.name, cell.title, facts, options), "entries": entries}


def _single(name: str, measured: dict[str, Any], options: Options) -> dict[str, Any]:
    options.announce(f"{name}: done")
    return {**_circumstances(name, _TITLES[name], {}, options), "entries": [], "measured": measured}


def _circumstances(name: str, title: str, facts: dict[str, Any], options: Options) -> dict[str, Any]:
    return circumstances(
        name,
        title,
        facts,
        packages=["datafusion"],
        repeat=options.repeat,
        limits=options.limits,
        note=options.note,
    )
