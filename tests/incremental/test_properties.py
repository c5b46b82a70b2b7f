"""After every epoch, the changes of the answer make it the join of the tables as they are."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.errors import DataError, SchemaError
from juncture.incremental.state.merging import Merge
from strategies import examples
from support.changing import Changing, check
from support.state import SMALL_STATE

WAYS = ["in memory", "in memory and kept", "on disk"]
HOWS = ["inner", "left", "right", "full", "semi", "anti"]

EXAMPLES = {
    "asof": examples(plain=True),
    **{kind: near_examples(kind, plain=True) for kind in ("range", "overlap", "where", "equi")},
    **{
        f"{kind}, aggregated": near_examples(kind, agg=True, plain=True)
        for kind in ("range", "overlap", "where", "equi")
    },
}


@contextmanager
def merges_at_once() -> Iterator[None]:
    """Wait for merges of runs on disk after each epoch."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Merge, "is_done", property(lambda merge: merge.result() is not None))
        yield


@pytest.fixture(scope="module", params=["in memory", "on disk"])
def most_in_memory(request):
    """Have rows in memory, or on disk."""
    with merges_at_once() if request.param == "on disk" else nullcontext():
        yield request.param


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", EXAMPLES)
@settings(max_examples=settings.default.max_examples // 2)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_types(kind, data, seed, tmp_path_factory, most_in_memory):
    example = data.draw(EXAMPLES[kind])
    folder = tmp_path_factory.mktemp("state") if seed % 3 == 0 or most_in_memory == "on disk" else None
    policy = SMALL_STATE if most_in_memory == "on disk" else None
    try:
        check(
            Changing(
                example.spec, example.left, example.right, random.Random(seed), epochs=4, folder=folder, policy=policy
            )
        )
    except (DataError, SchemaError) as error:
        # Rows are compared by 64 bits, and have to be equal to themselves.
        assume(not any(each in str(error) for each in ("64 bits", "64-bit code", "cannot be compared")))
        raise


LEFT = pa.schema({"k": pa.int8(), "on": pa.int64(), "x": pa.float64(), "far": pa.int64(), "n": pa.int64()})
RIGHT = pa.schema({"k": pa.int8(), "on": pa.int64(), "x": pa.float64(), "end": pa.int64(), "m": pa.string()})

SPECS = [
    jn.Asof(on="on", by="k"),
    jn.Asof(on="on", by="k", allow_exact_matches=False, tolerance=3),
    jn.Asof(on="on", direction="forward", matches=2),
    jn.Asof(on="on", by="k", direction="forward", tolerance="far", allow_exact_matches=False, matches=3),
    jn.Asof(on="on", by="k", direction="nearest", order_by="m"),
    jn.Asof(on="on", direction="nearest", matches=2, allow_exact_matches=False),
    jn.Asof(on="x", by="k", direction="nearest"),
    jn.Asof(on="x", direction="nearest", matches=2),
    jn.Asof(on="on", by="k", ties="error"),
    jn.Asof(on="on", by="k", available_at=("end", "n")),
    jn.Asof(on="on", direction="nearest", where="l.n <> r.end", tolerance=6, matches=2),
    jn.Asof(on="on", by="k", direction="forward", available_at=("end", "n"), where="l.x <> r.x", tolerance="far"),
    jn.Range(on="on", by="k", lower=-2, upper=1),
    jn.Range(on="on", lower=None, upper="far", closed="left"),
    jn.Overlap(left_interval=("on", "n"), right_interval=("on", "end"), by="k"),
    jn.Where("l.k = r.k AND l.on > r.on - 3 AND l.on < r.on + 2 AND l.n <> r.end"),
    jn.Where("l.on < r.on OR l.x = r.x"),
    jn.Equi(on="k"),
    jn.Equi(on=("k", "on"), nulls_equal=True),
    jn.Equi(on="k", where="l.on < r.on"),
]


def pool(schema: pa.Schema, chance: random.Random, rows: int, spread: int) -> pa.Table:
    """Return random rows of few values, some of them null, and some the same."""
    floats = [0.0, 0.5, 1.0, 1e16, 1e16 + 2, -1e300, 1e300, float("inf"), float("-inf"), float("nan")]
    columns = {}
    for each in schema:
        cells: list[object] = [chance.randint(0, 2 if each.name in ("k", "far") else spread) for _ in range(rows)]
        if each.name == "x":
            cells = [chance.choice(floats) for _ in range(rows)]
        if each.name in ("n", "end"):
            cells = [start + chance.randint(0, 3) for start in columns["on"]]
        if each.name == "m":
            cells = [chance.choice(["a", "b"]) for _ in range(rows)]
        columns[each.name] = cells
    for name in ("k", "x"):
        columns[name] = [None if chance.random() < 0.07 else cell for cell in columns[name]]
    return pa.table({each.name: pa.array(columns[each.name], each.type) for each in schema}, schema=schema)


@pytest.mark.parametrize(
    ("spec", "how", "kept"),
    [
        # Each join with half of the `how` in each run, in one of the ways; and with each in each in a nightly run.
        pytest.param(
            spec,
            how,
            kept,
            marks=pytest.mark.nightly if (number + turn + way) % (2 * len(WAYS)) else [],
            id=f"{spec.kind} {number}-{how}-{kept}",
        )
        for number, spec in enumerate(SPECS)
        for turn, how in enumerate(HOWS)
        for way, kept in enumerate(WAYS)
    ],
)
def test_many_epochs(spec, how, kept, tmp_path):
    chance = random.Random(f"{spec} {how} {WAYS.index(kept)}")
    spread, rows = chance.choice([4, 12, 40]), chance.choice([6, 20])
    tables = [pool(schema, chance, rows, spread) for schema in (LEFT, RIGHT)]
    folder = None if kept == "in memory" else tmp_path / "state"
    policy = SMALL_STATE if kept == "on disk" else None
    with merges_at_once() if kept == "on disk" else nullcontext():
        check(Changing(replace(spec, how=how), *tables, chance, 6, chance.choice([1, 3, 8]), folder, policy=policy))


@pytest.mark.parametrize("how", ["left", "inner"])
def test_aggregates_over_many_epochs(how, tmp_path, most_in_memory):
    agg = {"x": ["mean", "max"], "m": ["last", "count"], "*": "count"}
    for spec in (SPECS[12], SPECS[14]):
        for seed in range(2):
            chance = random.Random(seed)
            tables = [pool(schema, chance, 20, 12) for schema in (LEFT, RIGHT)]
            folder = tmp_path / f"{spec.kind} {seed}" if most_in_memory == "on disk" else None
            policy = None if folder is None else SMALL_STATE
            check(Changing(replace(spec, how=how, agg=agg), *tables, chance, epochs=10, folder=folder, policy=policy))
