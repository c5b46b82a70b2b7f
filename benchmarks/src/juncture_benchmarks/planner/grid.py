"""The workloads of the planner's benchmark.

Each has at least two algorithms that apply, and is long enough to compare them.
"""

from __future__ import annotations

from dataclasses import replace

from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.kinds import Spec
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.schema import How
from juncture.spec.where import Where
from juncture_benchmarks.planner.workload import Rows, Workload

__all__ = ["workloads"]

_LEFT_ONLY = ("id", "id")
_FAR = 1 << 40
"""Length of a line on which few rows share a position."""
_OVERLAP = Overlap(left_interval=("at", "stop"), right_interval=("at", "stop"))
_SPACING = 100
"""Distance of rows on a line on which windows and intervals have some matches."""
_K, _M = 1_000, 1_000_000


def workloads() -> list[Workload]:
    """Return all workloads, those of each engine together."""
    return [
        *_asof_in_process(),
        *_near_in_process(),
        *_equi_in_process(),
        *_limited_in_process(),
        *_asof_on_spark(),
        *_near_on_spark(),
        *_equi_on_spark(),
    ]


def _line(count: int, *, keys: int = 0, is_sorted: bool = False, length: int = 0, is_text: bool = False) -> Rows:
    """Return rows on a line on which they are some way apart."""
    span = _SPACING * max(count, 1)
    return Rows(count=count, keys=keys, is_text=is_text, span=span, is_sorted=is_sorted, length=length)


def _over(rows: Rows, other: Rows) -> Rows:
    """Return rows on the line of others."""
    return replace(rows, span=other.span)


def _asof_in_process() -> list[Workload]:
    by_key, free = Asof(on="at", by="key"), Asof(on="at")

    def named(name: str, title: str, left: Rows, right: Rows, spec: Spec = by_key) -> Workload:
        return Workload(name=f"local-asof-{name}", title=f"as-of: {title}", left=left, right=right, spec=spec)

    text = Rows(count=2 * _M, keys=10 * _K, is_text=True, span=_FAR)
    numbers = replace(text, is_text=False)
    unkeyed = Rows(count=3 * _M, span=_FAR)
    return [
        named("small-left", "a small left side", replace(text, count=100 * _K), replace(text, count=5 * _M)),
        named("small-right", "a small right side", replace(text, count=5 * _M), replace(text, count=200 * _K)),
        named("even", "two of a size, keys of text", text, text),
        named("numbers", "keys that are numbers", numbers, numbers),
        named("many-keys", "as many keys as rows", replace(numbers, keys=2 * _M), replace(numbers, keys=2 * _M)),
        named(
            "hot",
            "one key has half of the rows",
            replace(numbers, hot_share=0.5),
            replace(text, count=3 * _M, is_text=False, hot_share=0.5),
        ),
        named("no-key", "no key", unkeyed, unkeyed, free),
        named(
            "sorted",
            "no key, both sides sorted",
            replace(unkeyed, is_sorted=True),
            replace(unkeyed, is_sorted=True),
            free,
        ),
        named(
            "sorted-keys",
            "both sides sorted by time",
            replace(numbers, is_sorted=True),
            replace(numbers, count=4 * _M, is_sorted=True),
        ),
        named(
            "nearest",
            "nearest, within a tolerance",
            numbers,
            numbers,
            Asof(on="at", by="key", direction="nearest", tolerance=1 << 28),
        ),
        named("large", "a right side of ten million rows", replace(text, count=_M), replace(text, count=10 * _M)),
    ]


def _near_in_process() -> list[Workload]:
    def named(name: str, title: str, left: Rows, right: Rows, spec: Spec) -> Workload:
        return Workload(name=f"local-{name}", title=title, left=left, right=right, spec=spec)

    some, many = _line(300 * _K), _line(2 * _M)
    pair, ordered = _line(6 * _K), _line(20 * _K, is_sorted=True)
    short, long = _line(_M, length=100), _line(50 * _K, length=10 * _K)
    keyed = _line(_M, keys=_K)
    window = "r.at >= l.at - 100 AND r.at <= l.at + 100"
    overlap = "l.at < r.stop AND r.at < l.stop"
    by_key = Where("l.key = r.key AND r.at >= l.at - 50000 AND r.at <= l.at + 50000")
    hard = Where("l.at < r.at AND l.val > r.val + 0.99")
    late = Where("l.at > r.at + 29700000 AND l.val > r.val")
    unsortable = Where("(l.at - r.at) * (l.at - r.at) < 10000", allow_cross=True)
    either = Where("l.at = r.at OR l.val > r.val + 0.99", allow_cross=True)
    return [
        named("range-window", "range: about two matches a row", many, many, Range(on="at", lower=-100, upper=100)),
        named("range-few", "range: few left rows", _over(_line(20), many), many, Range(on="at", lower=-100, upper=100)),
        named("overlap-short", "overlap: short intervals", short, short, _OVERLAP),
        named("overlap-long", "overlap: long intervals", long, long, _OVERLAP),
        named("where-window", "where: a window", many, many, Where(window)),
        named("where-keyed", "where: a key and a window", keyed, keyed, by_key),
        named("where-overlap", "where: short intervals overlap", short, short, Where(overlap)),
        named("where-long", "where: long intervals overlap", long, long, Where(overlap)),
        named("where-hard", "where: two inequalities, the second hard to meet", some, some, hard),
        named("where-late", "where: two inequalities, the first hard to meet", some, some, late),
        named("where-blocks", "where: nothing to sort by, sorted sides", ordered, ordered, unsortable),
        named("where-no-blocks", "where: nothing to sort by, unsorted sides", pair, pair, unsortable),
        named("where-or", "where: one of two conditions", pair, pair, either),
    ]


def _unique(count: int, *, is_text: bool = True, keys: int = 0) -> Rows:
    """Return rows with distinct keys, from twice as many keys as rows or from a given number."""
    return Rows(count=count, keys=keys or 2 * count, is_unique=True, is_text=is_text)


def _drawn(count: int, keys: int, *, is_text: bool = True, hot_share: float = 0.0) -> Rows:
    """Return rows with keys at random."""
    return Rows(count=count, keys=keys, is_text=is_text, hot_share=hot_share)


def _equi(name: str, title: str, left: Rows, right: Rows, how: How = "inner", memory: str | None = None) -> Workload:
    shown = _LEFT_ONLY if how in ("semi", "anti") else ("id", "id_right")
    spec, title = Equi(on="key", how=how), f"equality: {title}"
    return Workload(name=name, title=title, left=left, right=right, spec=spec, shown=shown, memory=memory)


def _equi_in_process() -> list[Workload]:
    def named(name: str, title: str, left: Rows, right: Rows, how: How = "inner") -> Workload:
        return _equi(f"local-equi-{name}", title, left, right, how)

    few, many = _unique(100 * _K), _drawn(5 * _M, 200 * _K)
    few_numbers, many_numbers = _unique(500 * _K, is_text=False), _drawn(8 * _M, _M, is_text=False)
    million, numbers = _unique(_M), _unique(2 * _M, is_text=False)
    thousand, repeated = _drawn(50 * _K, _K), _drawn(500 * _K, 50 * _K, is_text=False)
    half = _drawn(3 * _M, _M, hot_share=0.5)
    return [
        named("small-left", "a small left side", few, many),
        named("small-right", "a small right side", many, few),
        named("even", "two of a size", million, _drawn(_M, 2 * _M)),
        named("even-numbers", "two of a size, numbers", numbers, _drawn(2 * _M, 4 * _M, is_text=False)),
        named("small-left-numbers", "a small left side, numbers", few_numbers, many_numbers),
        named("small-right-numbers", "a small right side, numbers", many_numbers, few_numbers),
        named("few-keys", "a thousand keys, fifty matches a row", thousand, thousand),
        named("many-matches", "ten matches a row, numbers", repeated, repeated),
        named("hot", "one key has half of the large side", _unique(500 * _K), half),
        named("no-matches", "no key on both sides, numbers", numbers, replace(numbers, first_key=5 * _M)),
        named("semi", "left rows with a match", million, _drawn(3 * _M, 2 * _M), "semi"),
        named("anti", "left rows without a match, numbers", replace(many_numbers, count=4 * _M), few_numbers, "anti"),
        named("left", "all left rows", _drawn(3 * _M, 2 * _M), million, "left"),
        named("full", "all rows of both, numbers", _drawn(2 * _M, 2 * _M, is_text=False), numbers, "full"),
    ]


def _limited_in_process() -> list[Workload]:
    def named(name: str, title: str, left: Rows, right: Rows, memory: str) -> Workload:
        return _equi(f"local-limited-{name}", title, left, right, memory=memory)

    numbers = _unique(2 * _M, is_text=False)
    return [
        named("even", "not half of the data fit", _unique(_M), _drawn(3 * _M, 2 * _M), "100MB"),
        named(
            "small-left",
            "the left side fits, the right one does not",
            _unique(200 * _K),
            _drawn(4 * _M, 400 * _K),
            "128MB",
        ),
        named("numbers", "neither side fits, numbers", numbers, _drawn(3 * _M, 4 * _M, is_text=False), "128MB"),
    ]


def _asof_on_spark() -> list[Workload]:
    def named(
        name: str, title: str, left: Rows, right: Rows, by: str | None = "key", *, as_frames: bool = True
    ) -> Workload:
        spec = Asof(on="at", by=by)
        return Workload(
            name=f"spark-asof-{name}", title=f"as-of: {title}", left=left, right=right, spec=spec, as_frames=as_frames
        )

    keyed, unkeyed = Rows(count=_M, keys=10 * _K, is_text=True, span=_FAR), Rows(count=_M, span=_FAR)
    numbers = replace(keyed, is_text=False)
    small = replace(keyed, count=20 * _K)
    large = replace(keyed, count=3 * _M)
    return [
        named("small-left", "a small left side", small, large),
        named("small-right", "a small right side", replace(keyed, count=2 * _M), small),
        named("even", "two of a size", keyed, keyed),
        named("no-key", "no key", unkeyed, unkeyed, None),
        named("hot", "one key has half of the rows", replace(numbers, hot_share=0.5), replace(numbers, hot_share=0.5)),
        named("files", "files, a larger right side", keyed, large, as_frames=False),
        named("files-small-left", "files, a small left side", small, large, as_frames=False),
        named("files-small-right", "files, a small right side", large, small, as_frames=False),
        named("few-rows", "few rows", replace(keyed, count=100 * _K), replace(keyed, count=100 * _K)),
    ]


def _near_on_spark() -> list[Workload]:
    def named(name: str, title: str, left: Rows, right: Rows, spec: Spec, *, as_frames: bool = True) -> Workload:
        return Workload(name=f"spark-{name}", title=title, left=left, right=right, spec=spec, as_frames=as_frames)

    some, many = _line(100 * _K), _line(500 * _K)
    short = _line(200 * _K, length=100)
    narrow, wide = Range(on="at", lower=-100, upper=100), Range(on="at", lower=-2 * _K, upper=0)
    return [
        named("range-narrow", "range: about two matches a row", many, many, narrow),
        named("range-wide", "range: about twenty matches a row", some, some, wide),
        named("range-few", "range: few rows", _line(10 * _K), _line(10 * _K), wide),
        named("range-small-left", "range: a small left side", _over(_line(5 * _K), many), many, narrow),
        named("range-files", "range: files", many, many, narrow, as_frames=False),
        named("overlap-short", "overlap: short intervals", short, short, _OVERLAP),
        named(
            "overlap-files",
            "overlap: short intervals, files",
            short,
            short,
            _OVERLAP,
            as_frames=False,
        ),
        named(
            "where-keyed",
            "where: a key and an inequality",
            _line(200 * _K, keys=20 * _K),
            _line(200 * _K, keys=20 * _K),
            Where("l.key = r.key AND l.at < r.at"),
        ),
        named("where-window", "where: a window", some, some, Where("r.at >= l.at - 100 AND r.at <= l.at + 100")),
    ]


def _equi_on_spark() -> list[Workload]:
    def named(name: str, title: str, left: Rows, right: Rows, how: How = "inner") -> Workload:
        return _equi(f"spark-equi-{name}", title, left, right, how)

    def drawn(count: int, hot_share: float = 0.0) -> Rows:
        return _drawn(count, 2 * _M, is_text=False, hot_share=hot_share)

    def unique(count: int) -> Rows:
        return _unique(count, is_text=False, keys=2 * _M)

    return [
        named("small-right", "a small right side", drawn(3 * _M), unique(20 * _K)),
        named("small-left", "a small left side", unique(20 * _K), drawn(3 * _M)),
        named("middle-right", "a right side of a tenth", drawn(3 * _M), unique(300 * _K)),
        named("even", "two of a size", unique(2 * _M), drawn(2 * _M)),
        named("hot", "one key has half of the large side", unique(300 * _K), drawn(3 * _M, hot_share=0.5)),
        named("left", "all left rows", drawn(2 * _M), unique(_M), "left"),
        named("full", "all rows of both sides", drawn(_M), unique(_M), "full"),
        named("semi", "left rows with a match", drawn(2 * _M), unique(500 * _K), "semi"),
        named("few-rows", "few rows", unique(100 * _K), drawn(100 * _K)),
    ]
