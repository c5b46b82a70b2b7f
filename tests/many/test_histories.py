"""Histories of versions and snapshots, and aligned histories, against their definition at every time."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMES = range(-1, 9)
VERSIONS = pa.schema([("k", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_())])

values = st.none() | st.integers(0, 1)
versions = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(0, 7)), st.tuples(values, st.none() | st.booleans()), max_size=12
)


def versions_table(rows: dict[tuple[str, int], tuple[int | None, bool | None]], order: Any = list) -> pa.Table:
    listed = [{"k": k, "ts": ts, "v": v, "gone": gone} for (k, ts), (v, gone) in order(rows.items())]
    return pa.Table.from_pylist(listed, VERSIONS)


def valid_at(table: pa.Table, key: str, time: int) -> list[tuple[Any, ...]]:
    """Return the values of the rows of a key that are valid at a time."""
    names = [name for name in table.column_names if name not in ("k", "valid_from", "valid_to")]
    return [
        tuple(row[name] for name in names)
        for row in table.to_pylist()
        if row["k"] == key and row["valid_from"] <= time and (row["valid_to"] is None or time < row["valid_to"])
    ]


@given(versions, st.randoms(use_true_random=False))
def test_a_history_has_the_last_version_of_each_time(rows: Any, random: Any) -> None:
    shuffled = list(rows.items())
    random.shuffle(shuffled)
    made = jn.history(versions_table(dict(shuffled)), key="k", deleted="gone")
    for key in "ab":
        for time in TIMES:
            last = max((ts for k, ts in rows if k == key and ts <= time), default=None)
            expected = [] if last is None or rows[key, last][1] else [(rows[key, last][0],)]
            assert valid_at(made, key, time) == expected
    check_merged(made)


@given(versions)
def test_snapshots_delete_missing_keys(rows: Any) -> None:
    made = jn.history(versions_table(rows).drop_columns(["gone"]), key="k", snapshots=True)
    for key in "ab":
        for time in TIMES:
            snapshot = max((ts for _, ts in rows if ts <= time), default=None)
            expected = [(rows[key, snapshot][0],)] if (key, snapshot) in rows else []
            assert valid_at(made, key, time) == expected
    check_merged(made)


def check_merged(made: pa.Table) -> None:
    rows = made.to_pylist()
    for one, two in pairwise(rows):
        assert one["k"] != two["k"] or one["valid_to"] < two["valid_from"] or one["v"] != two["v"]


@given(st.lists(versions, min_size=2, max_size=3), st.sampled_from(["inner", "left", "full"]))
def test_an_aligned_history_has_the_values_of_every_time(tables: Any, how: Any) -> None:
    histories = [
        jn.history(versions_table(rows), key="k", deleted="gone").rename_columns(
            ["k", f"v{i}", "valid_from", "valid_to"]
        )
        for i, rows in enumerate(tables)
    ]
    made = jn.align(*histories, key="k", how=how)
    assert made.column_names == ["k", "v0", "valid_from", "valid_to", *(f"v{i}" for i in range(1, len(tables)))]
    for key in "ab":
        for time in TIMES:
            present = [valid_at(each, key, time) for each in histories]
            is_kept = {"inner": all(present), "left": bool(present[0]), "full": any(present)}[how]
            expected = tuple(each[0][0] if each else None for each in present)
            assert valid_at(made, key, time) == ([expected] if is_kept else [])
    changes = {
        (row["k"], row[end]) for each in histories for row in each.to_pylist() for end in ("valid_from", "valid_to")
    }
    for row in made.to_pylist():
        ends = [time for key, time in changes if key == row["k"] and time is not None and time > row["valid_from"]]
        assert row["valid_to"] == min(ends, default=None)


@pytest.mark.parametrize(
    "times",
    [
        pa.array([date(2026, 1, 1), date(2026, 1, 3)]),
        pa.array(
            [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)], pa.timestamp("ns", "Europe/Paris")
        ),
        pa.array([2**64 - 2, 2**64 - 1], pa.uint64()),
        pa.array([Decimal("1.25"), Decimal("9" * 36)], pa.decimal128(38, 2)),
        pa.array([-0.5, 0.25]),
        pa.array(["a", "b"]),
    ],
    ids=lambda times: str(times.type),
)
def test_types_of_times_remain(times: pa.Array) -> None:
    rows = pa.table({"k": [[1], [1]], "v": pa.array(["x", "y"]).dictionary_encode(), "ts": times})
    made = jn.history(rows, key="k")
    assert made.schema == pa.schema(
        [rows.schema.field("k"), rows.schema.field("v"), ("valid_from", times.type), ("valid_to", times.type)]
    )
    assert made["valid_from"].combine_chunks() == times
    assert made["valid_to"].to_pylist() == [times[1].as_py(), None]
    aligned = jn.align(made, made, key="k", how="full")
    assert aligned.drop_columns(["v_right"]) == made
    assert aligned["v_right"].to_pylist() == ["x", "y"]
    assert jn.align(made.slice(0, 0), made.slice(0, 0), key="k").schema == aligned.schema


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, lambda rows: pl.DataFrame(rows).lazy()])
def test_returns_the_type_of_the_first_table(library: Any) -> None:
    days = [datetime(2026, 1, day) for day in (1, 2, 3)]
    rows = library({"k": ["a", "a", "b"], "v": [1, 2, 3], "ts": days})
    made = jn.history(rows, key="k")
    assert type(made) is type(rows)
    other = pa.table({"k": ["c"], "w": [5], "valid_from": pa.array(days[:1], pa.timestamp("us"))})
    other = other.append_column("valid_to", pa.nulls(1))
    aligned = jn.align(made, other, key=["k"], how="full")
    assert type(aligned) is type(rows)
    table = aligned.collect() if isinstance(aligned, pl.LazyFrame) else aligned
    assert list(table["k"]) == ["a", "a", "b", "c"]
    assert list(table["valid_from"]) == [*days, days[0]]
    assert list(table["w"])[3] == 5
    assert list(table["v"])[:3] == [1, 2, 3]


def test_pandas_labels_and_objects_remain() -> None:
    rows = pd.DataFrame({"ts": [2**62 + 1, 2**62 + 3], "v": [{"x": 1}, None]}, index=pd.Index(["a", "b"], name="k"))
    made = jn.history(rows, key="k")
    assert made.index.equals(rows.index)
    assert made["v"].tolist() == [{"x": 1}, None]
    assert made["valid_from"].tolist() == rows["ts"].tolist()
    other = pa.table({"k": ["a"], "w": [1], "valid_from": [2**62 + 2], "valid_to": [2**62 + 4]})
    aligned = jn.align(made, other, key="k", how="left")
    assert aligned.index.tolist() == ["a", "a", "a", "b"]
    assert aligned["valid_to"].tolist()[:2] == [2**62 + 2, 2**62 + 4]
    assert aligned["valid_to"].isna().tolist() == [False, False, True, True]


def test_equal_values_of_every_kind_are_merged() -> None:
    nan = float("nan")
    columns = {
        "f": [0.0, -0.0, nan, nan],
        "m": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
        "s": [{"x": None}] * 4,
        "n": pa.nulls(4),
    }
    made = jn.history(pa.table({"k": [1] * 4, "ts": [1, 2, 3, 4], **columns}), key="k")
    assert (made["valid_from"].to_pylist(), made["valid_to"].to_pylist()) == ([1, 3], [3, None])
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    with pytest.raises(jn.SchemaError, match="unions have no order"):
        jn.history(pa.table({"k": [1], "ts": [1], "u": union}), key="k")


def test_versions_at_one_time_are_an_error_or_chosen() -> None:
    rows = pa.table({"k": ["a", "b", "b"], "ts": [1, 2, 2], "v": [1, 2, 3]})
    with pytest.raises(jn.DataError, match=r'k = "b", ts = 2'):
        jn.history(rows, key="k")
    assert jn.history(rows, key="k", ties="first")["v"].to_pylist() == [1, 2]
    assert jn.history(rows, key="k", ties="last")["v"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"k": [1, None], "ts": [1, 2]}, "Row 1 has null in 'k'"),
        ({"k": [1, 1], "ts": [1.0, float("nan")]}, "Row 1 has nan in 'ts'"),
    ],
)
def test_missing_keys_and_times_are_an_error(rows: Any, message: str) -> None:
    with pytest.raises(jn.DataError, match=message):
        jn.history(pa.table(rows), key="k")


def test_wrong_intervals_are_an_error() -> None:
    good = pa.table({"k": [1], "valid_from": [1], "valid_to": [2]})
    twice = pa.table({"k": [1, 1], "valid_from": [1, 2], "valid_to": [3, 4]})
    with pytest.raises(jn.DataError, match=r"Two rows of history 2 .* k = 1, valid_from = 1, valid_to = 3, and k = 1"):
        jn.align(good, twice, key="k")
    with pytest.raises(jn.DataError, match="history 1 starts after its end: k = 1, valid_from = 3, valid_to = 1"):
        jn.align(pa.table({"k": [1], "valid_from": [3], "valid_to": [1]}), good, key="k")
    never = pa.table({"k": [1], "valid_from": [1], "valid_to": [1]})
    assert jn.align(never, good, key="k", how="left").num_rows == 0


def test_times_of_other_precision_are_compared_exactly() -> None:
    def at(*times: int, unit: str) -> pa.Table:
        return pa.table({"k": [1], "valid_from": pa.array([times[0]], pa.timestamp(unit)), "valid_to": pa.nulls(1)})

    assert jn.align(at(1_000, unit="ms"), at(2, unit="s"), key="k")["valid_from"].to_pylist() == [
        datetime(1970, 1, 1, 0, 0, 2)
    ]
    with pytest.raises(jn.SchemaError, match="'valid_from' of history 2 is of type timestamp"):
        jn.align(at(1, unit="s"), at(1_500, unit="ms"), key="k")


def test_invalid_arguments_are_refused() -> None:
    rows = pa.table({"k": [1], "ts": [1], "valid_from": [1]})
    history: Any = jn.history
    with pytest.raises(jn.SchemaError, match="valid_from='valid_from' is already a column"):
        history(rows, key="k")
    with pytest.raises(jn.SpecError, match="snapshots=True conflict"):
        history(rows, key="k", deleted="valid_from", snapshots=True)
    with pytest.raises(jn.SchemaError, match="Expected a boolean column"):
        history(rows, key="k", deleted="valid_from")
    with pytest.raises(jn.SpecError, match="name a column twice"):
        history(rows, key="ts")
    with pytest.raises(jn.SpecError, match="Expected two histories or more"):
        jn.align(rows, key="k")


def test_spark_tables_are_refused(spark: SparkSession) -> None:
    frame = spark.range(1)
    with pytest.raises(jn.PlanError, match="runs in this process"):
        jn.history(frame, key="id")
    with pytest.raises(jn.PlanError, match="runs in this process"):
        jn.align(frame, frame, key="id")
