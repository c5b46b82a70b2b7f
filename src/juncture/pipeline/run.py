"""Pipeline runs: needed sources and steps are computed, checked and written; unchanged sinks are skipped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from juncture import __version__
from juncture.errors import DataError, JunctureError
from juncture.files.formats import paths_of
from juncture.ordered.duration import duration_ns, format_duration
from juncture.pipeline.engine import Engine, MatchCounts, Watch, unwatched
from juncture.pipeline.graph import needed_for, needed_in_order, readers_of
from juncture.pipeline.model import SPARK_ONLY_FORMATS, Check, DistanceLimits, File, SinkSection, SourceSection
from juncture.pipeline.sinks import placed
from juncture.pipeline.sources import format_name

_NAME = "written.json"


@dataclass(frozen=True)
class EarlierRuns:
    """Earlier runs. `written` has the fingerprint, path, files and number of rows of each sink."""

    folder: Path
    written: Mapping[str, Mapping[str, Any]]

    @classmethod
    def of(cls, folder: Path) -> EarlierRuns:
        """Return the earlier runs in a folder; none if it is missing or unreadable."""
        try:
            written = json.loads((folder / _NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            written = {}
        return cls(folder, written if isinstance(written, dict) else {})

    def outputs(self) -> list[Path]:
        """Return the outputs that are unchanged since they were written."""
        return [
            Path(each["place"])
            for each in self.written.values()
            if each.get("place") and each.get("files") == _files(Path(each["place"]))
        ]

    def rows_of(self, name: str, made_of: str | None, sink: SinkSection) -> int | None:
        """Return the number of rows of a sink that is unchanged and has this fingerprint, else None."""
        entry = self.written.get(name)
        if entry is None or made_of is None or entry.get("made_of") != made_of or not sink.is_here:
            return None
        target = sink.target_path.resolve()
        is_same = entry.get("place") == str(target) and entry.get("files") == _files(target)
        return entry.get("rows", 0) if is_same else None

    def with_written(self, name: str, made_of: str | None, sink: SinkSection, rows: int | None) -> EarlierRuns:
        """Record a written sink, and store and return the result."""
        target = sink.target_path.resolve() if sink.is_here else None
        entry = {
            "made_of": made_of,
            "place": None if target is None else str(target),
            "files": None if target is None else _files(target),
            "rows": rows,
        }
        fresh = EarlierRuns(self.folder, {**self.written, name: entry})
        with placed(self.folder / _NAME) as path:
            path.write_text(json.dumps(fresh.written, indent=1), encoding="utf-8")
        return fresh


def fingerprint(file: File, sink: str, engine: str) -> str | None:
    """Return a fingerprint of a sink: version, sections and input files. None if a source has no change information."""
    section = file.sinks[sink]
    names = sorted(needed_for(file, [section.from_]))
    files = list[Any]()
    for name in names:
        if name in file.sources:
            inside = _inputs(file.sources[name])
            if inside is None:
                return None
            files.append(inside)
    sections = [repr(file.steps.get(name) or file.sources.get(name)) for name in names]
    sections += [repr(check) for check in file.checks if check.from_ in names]
    content = json.dumps([__version__, engine, repr(section), names, sections, files])
    return hashlib.sha256(content.encode()).hexdigest()


def _inputs(source: SourceSection) -> list[list[Any]] | None:
    if not source.paths or any("://" in path for path in source.paths):
        return None
    try:
        if format_name(source) in SPARK_ONLY_FORMATS:
            return [status for path in source.paths for status in _files(Path(path))]
        return [_status(file) for path in source.paths for file in paths_of(path, "path")]
    except JunctureError:
        return None


def _files(location: Path) -> list[list[Any]]:
    if location.is_file():
        return [_status(location)]
    files = sorted(path for path in location.rglob("*") if path.is_file() and not path.name.startswith((".", "_")))
    return [_status(path) for path in files]


def _status(file: Path) -> list[Any]:
    status = file.stat()
    return [str(file), status.st_size, status.st_mtime_ns]


@dataclass(frozen=True)
class Checked:
    """The result of one check of a source or step, as text."""

    of: str
    expected: str
    found: str
    passed: bool
    fails: bool  # whether the pipeline stops if it has not passed


def checked(check: Check, engine: Engine) -> Iterator[Checked]:
    """Yield the result of each expectation of a check."""
    name = check.from_ if check.table is None else f"{check.from_}.{check.table}"
    for expected, found, passed in _results(check, engine):
        yield Checked(name, expected, found, passed, check.on_failure == "error")


def _results(check: Check, engine: Engine) -> Iterator[tuple[str, str, bool]]:
    if check.rows is not None or check.not_null:
        rows, nulls = engine.count(check.from_, check.not_null)
        if check.rows is not None:
            low, high = check.rows.min, check.rows.max
            yield f"rows {_between(low, high)}", f"{rows:,}", (low or 0) <= rows and (high is None or rows <= high)
        for column in check.not_null:
            yield f"{column} is never null", f"{nulls[column]:,} nulls", not nulls[column]
    if check.unique:
        repeated = engine.repeated(check.from_, check.unique)
        yield f"{', '.join(check.unique)} unique", f"{repeated:,} values more than once", not repeated
    if check.min_match_rate is not None or check.max_distance is not None or check.max_leaked is not None:
        yield from _of_matches(check, engine.matches(check.from_, check.table))


def _of_matches(check: Check, matches: MatchCounts) -> Iterator[tuple[str, str, bool]]:
    if check.min_match_rate is not None:
        rate = matches.matched / matches.left_rows if matches.left_rows else 1.0
        yield f"at least {check.min_match_rate:.2%} matched", f"{rate:.2%}", rate >= check.min_match_rate
    if check.max_distance is not None:
        limits = check.max_distance
        if not isinstance(limits, DistanceLimits):
            limits = DistanceLimits(max=limits)
        for name, limit in limits.model_dump(exclude_none=True).items():
            yield _distance(name, limit, matches)
    if check.max_leaked is not None:
        leaked = matches.leaked or 0
        yield f"at most {check.max_leaked:,} rows available too late", f"{leaked:,}", leaked <= check.max_leaked


def _distance(name: str, limit: Any, matches: MatchCounts) -> tuple[str, str, bool]:
    expected, distances = f"distance {name} at most {limit}", matches.distances
    if distances is None and matches.matched:
        return expected, "on columns without distances", False
    if distances is None:
        return expected, "nothing matched", True
    value = getattr(distances, name)
    greatest = duration_ns(limit, argument="max_distance") if isinstance(limit, str) else limit
    return expected, format_duration(int(value)) if distances.is_time else f"{value:g}", value <= greatest


def _between(low: int | None, high: int | None) -> str:
    if high is None:
        return f"at least {low or 0:,}"
    return f"at most {high:,}" if low is None else f"from {low:,} to {high:,}"


@dataclass(frozen=True)
class Written:
    """A sink after a run."""

    name: str
    place: str  # a path or table
    rows: int | None  # None if unknown
    duration_s: float
    unchanged: bool = False  # whether it was skipped, because its inputs are unchanged


@dataclass(frozen=True)
class RunReport:
    """The result of a pipeline run.

    Attributes
    ----------
    sinks
        The written and unchanged sinks.
    checks
        The results of checks.
    duration_s
        The duration.
    """

    sinks: tuple[Written, ...]
    checks: tuple[Checked, ...]
    duration_s: float

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self)


Begin = Callable[[Sequence[str]], Engine]
"""Returns an engine, given the sources and steps that are read more than once."""


def run(
    file: File,
    sinks: Sequence[str],
    begin: Begin,
    *,
    engine: str,
    force: bool = False,
    watch: Watch = unwatched,
) -> RunReport:
    """Write sinks. The engine is created by `begin` only if there is work. If a check fails, no sink is written."""
    began = time.monotonic()
    state = EarlierRuns.of(file.state)
    made_of = {name: fingerprint(file, name, engine) for name in sinks}
    done = dict[str, Written]()
    for name in sinks:
        rows = None if force else state.rows_of(name, made_of[name], file.sinks[name])
        if rows is not None:
            done[name] = Written(name, _location(file, name), rows, 0.0, unchanged=True)
    left = [name for name in sinks if name not in done]
    checks = tuple[Checked, ...]()
    if left:
        needed = needed_in_order(file, [file.sinks[name].from_ for name in left])
        running = begin(_wanted_again(file, needed))
        try:
            for name in needed:
                running.make(name)
            checks = _checked(file, running, needed, watch)
            for name in left:
                before = time.monotonic()
                rows = running.write(file.sinks[name])
                state = state.with_written(name, made_of[name], file.sinks[name], rows)
                done[name] = Written(name, _location(file, name), rows, time.monotonic() - before)
        finally:
            running.close()
    return RunReport(tuple(done[name] for name in sinks), checks, time.monotonic() - began)


def _location(file: File, name: str) -> str:
    sink = file.sinks[name]
    return sink.path or sink.table or str(sink.options.get("dbtable", name))


def _wanted_again(file: File, needed: Sequence[str]) -> list[str]:
    counted = readers_of(file, needed)
    counted.update({check.from_ for check in file.checks if check.from_ in needed})
    return [name for name in file.steps if counted[name] > 1]


def _checked(file: File, engine: Engine, needed: Sequence[str], watch: Watch) -> tuple[Checked, ...]:
    wanted = [check for check in file.checks if check.from_ in needed]
    if not wanted:
        return ()
    with watch("Checking"):
        results = tuple(each for check in wanted for each in checked(check, engine))
    failed = [each for each in results if not each.passed and each.fails]
    if failed:
        differences = "; ".join(f"{each.of}: expected {each.expected}, found {each.found}" for each in failed)
        raise DataError(
            f'{differences}. Nothing was written. Correct the data, or set on_failure = "warn".', name="JN-CHECK-FAILED"
        )
    return results
