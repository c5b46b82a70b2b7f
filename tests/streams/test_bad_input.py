"""What a join of streams refuses, and how it says so."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings

import juncture as jn
from juncture.errors import DataError, JunctureError, PlanError, SchemaError, SpecError
from predicate.strategies import conditions

LEFT = pa.schema({"k": pa.int64(), "a": pa.int64(), "ts": pa.timestamp("us"), "x": pa.float64(), "name": pa.string()})
RIGHT = pa.schema({"k": pa.int64(), "b": pa.int64(), "at": pa.timestamp("us"), "y": pa.float64()})
BAND = jn.Where("l.k = r.k AND l.a > r.b - 3 AND l.a < r.b + 10")


def band(**arguments) -> jn.StreamJoin:
    return jn.stream(LEFT, RIGHT, BAND, **({"left_order": jn.Order("a"), "right_order": jn.Order("b")} | arguments))


def refused(error: type[JunctureError], *parts: str):
    """Expect an error that says several things."""
    return pytest.raises(error, match="(?s)" + ".*".join(parts))


def left_rows(**columns) -> pa.RecordBatch:
    count = max(len(cells) for cells in columns.values())
    cells = {field.name: columns.get(field.name, [None] * count) for field in LEFT}
    return pa.record_batch(cells, schema=LEFT)


ORDERS = [
    ({"expression": 5}, SpecError, ("expression=5", "not SQL")),
    ({"expression": "a", "delay": -1}, SpecError, ("delay=-1", "negative")),
    ({"expression": "a", "delay": [1]}, SpecError, (r"delay=\[1\]", "not a distance")),
    ({"expression": "a", "delay": float("nan")}, SpecError, ("delay=nan",)),
    ({"expression": "a", "delay": "soon"}, SpecError, ("delay='soon'", "not a duration")),
    ({"expression": "a", "descending": "yes"}, SpecError, ("descending='yes'",)),
]


@pytest.mark.parametrize(("arguments", "error", "parts"), ORDERS)
def test_orders_that_make_no_sense(arguments, error, parts):
    with refused(error, *parts):
        jn.Order(**arguments)


SIDES = [
    (jn.Order("aa"), SchemaError, ("aa", "Did you mean 'a'")),
    (jn.Order("name"), SchemaError, ("'name'", "STRING", "Expected numbers")),
    (jn.Order("1 + 2"), SpecError, ("'1 \\+ 2'", "same for all rows")),
    (jn.Order("a +"), SpecError, ("a \\+",)),
    (jn.Order("r.b"), SchemaError, ("b",)),
    (jn.Order("ts", delay=5), SpecError, ("delay=5", "no unit")),
    (jn.Order("a", delay="5s"), SpecError, ("delay='5s'", "duration", "number")),
    (jn.Order("a", delay=float("inf")), SpecError, ("delay=inf", "no row would ever be late")),
    ("a", SpecError, ("left_order='a'", "jn.Order")),
    ([jn.Order("a"), 3], SpecError, ("jn.Order",)),
]


@pytest.mark.parametrize(("order", "error", "parts"), SIDES)
def test_orders_that_do_not_fit_their_side(order, error, parts):
    with refused(error, *parts):
        band(left_order=order)


def test_other_arguments():
    with refused(SpecError, "spec='l.a = r.b'", r"jn\.Where"):
        jn.stream(LEFT, RIGHT, "l.a = r.b")
    with refused(SpecError, "left=.*", "pyarrow.Schema"):
        jn.stream(LEFT.empty_table(), RIGHT, BAND)
    with refused(SpecError, "late='drop'"):
        band(late="drop")


GROWING = [
    (
        BAND,
        {"left_order": None, "right_order": None},
        ("left rows would be kept forever", "right side has no order", r"right_order=jn\.Order\('b'\)"),
    ),
    (BAND, {"right_order": jn.Order("y")}, ("left rows would be kept forever", "'y'", r"jn\.Order\('b'\)")),
    (BAND, {"left_order": jn.Order("a", descending=True)}, ()),
    (jn.Where("l.k = r.k"), {}, ("left rows would be kept forever", "INTERVAL 1 HOUR", "allow_unbounded")),
    (jn.Where("l.a > r.b"), {}, ("right rows would be kept forever", r"jn\.Order\('a', descending=True\)")),
    (jn.Where("l.a < r.b"), {}, ("left rows would be kept forever", r"jn\.Order\('b', descending=True\)")),
    (jn.Where("l.a > r.b - 3 OR l.x > 0"), {}, ("left rows would be kept forever",)),
    (jn.Equi(on="k"), {}, ("left rows would be kept forever",)),
    (jn.Range(left_on="a", right_on="b", lower=-5), {}, ("left rows would be kept forever",)),
    (
        jn.Asof(left_on="a", right_on="b", by="k"),
        {"right_order": None},
        ("left rows would be kept forever", r"right_order=jn\.Order\('b'\)"),
    ),
    (jn.Asof(left_on="a", right_on="b", by="k"), {"left_order": None}, ("right rows would be kept forever",)),
    (
        jn.Asof(left_on="a", right_on="b", by="k", direction="forward"),
        {},
        ("left rows would be kept forever", "direction='forward' and no tolerance", "tolerance="),
    ),
]


@pytest.mark.parametrize(("spec", "arguments", "parts"), GROWING)
def test_a_state_that_would_grow_for_ever(spec, arguments, parts):
    orders = {"left_order": jn.Order("a"), "right_order": jn.Order("b")} | arguments
    if not parts:
        assert "forever" not in jn.stream(LEFT, RIGHT, spec, **orders).explain()
        return
    with refused(PlanError, *parts):
        jn.stream(LEFT, RIGHT, spec, **orders)
    assert "forever" in jn.stream(LEFT, RIGHT, spec, **orders, allow_unbounded=True).explain()


NARROW = {
    "r.b BETWEEN l.a - l.w AND l.a": [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(3, 1), pa.decimal128(38, 0)),
    ],
    "r.b BETWEEN l.a - CAST(l.w AS TINYINT) AND l.a": [pa.int64(), pa.float64()],
    "r.b + l.w >= l.a AND r.b <= l.a": [pa.int8(), pa.decimal128(3, 1)],
    "r.b - l.a BETWEEN -l.w AND 0": [pa.int8()],
    "r.b BETWEEN l.a - l.w / 10 AND l.a": [pa.int8(), pa.int64(), pa.decimal128(3, 1)],
    "r.b BETWEEN l.a - abs(l.w) AND l.a": [pa.int16()],
    "r.b BETWEEN l.a - coalesce(l.w, 0) AND l.a": [pa.int16()],
    "r.b BETWEEN l.a - greatest(l.w, 0) AND l.a": [pa.uint8()],
    "r.at BETWEEN l.ts - l.w * INTERVAL 1 SECOND AND l.ts": [pa.int8(), pa.int64()],
    "r.at BETWEEN l.ts - (l.w - DATE '2024-01-01') AND l.ts": [pa.date32(), pa.date64()],
}
"""Conditions that bound the right rows by what one more column holds, and types of it."""


@pytest.mark.parametrize(
    ("predicate", "data_type"), [(each, data_type) for each, types in NARROW.items() for data_type in types], ids=str
)
def test_the_range_of_a_type_is_no_bound(predicate, data_type):
    left = LEFT.append(pa.field("w", data_type))
    names = ("ts", "at") if "ts" in predicate else ("a", "b")
    orders = {f"{side}_order": jn.Order(name) for side, name in zip(("left", "right"), names, strict=True)}
    with refused(
        PlanError, "right rows would be kept forever", f"left order \\('{names[0]}'\\)", r"pass left_order=jn\.Order"
    ):
        jn.stream(left, RIGHT, jn.Where(predicate), **orders)


BOUNDED = [
    # What a row can hold is limited, not what its type can.
    (jn.Where("r.b BETWEEN l.a - l.w AND l.a AND l.w < 100"), "a"),
    (jn.Where("r.b BETWEEN l.a - l.w % 10 AND l.a"), "a"),
    (jn.Where("r.b BETWEEN l.a - least(l.w, 60) AND l.a"), "a"),
    (jn.Where("r.b BETWEEN l.a - CAST(l.w > 5 AS INT) AND l.a"), "a"),
    (jn.Where("r.b BETWEEN l.a - l.w AND l.a"), ["a - w", "a"]),
    (jn.Where("l.a > r.b - 3 AND l.a < r.b + 10 AND r.b < 5"), "a"),
    (jn.Range(left_on="a", right_on="b", lower="w", upper=0), ["a + w", "a"]),
    (jn.Range(left_on="a", right_on="b", lower=0, upper="w"), "a"),
]


@pytest.mark.parametrize("data_type", [pa.int8(), pa.int64()], ids=str)
@pytest.mark.parametrize(("spec", "order"), BOUNDED)
def test_what_bounds_a_column_of_any_type(spec, order, data_type):
    orders = [jn.Order(each) for each in ([order] if isinstance(order, str) else order)]
    left = LEFT.append(pa.field("w", data_type))
    assert "forever" not in jn.stream(left, RIGHT, spec, left_order=orders, right_order=jn.Order("b")).explain()


@settings(max_examples=2 * settings.default.max_examples)
@given(conditions())
def test_a_condition_without_meaning(drawn):
    condition, one, other = drawn
    left, right = LEFT.remove(3).append(pa.field("x", one)), RIGHT.remove(3).append(pa.field("y", other))
    spec = jn.Where(f"l.k = r.k AND l.a > r.b - 3 AND ({condition})")
    try:
        join = jn.stream(left, right, spec, left_order=jn.Order("a"), right_order=jn.Order("b"), allow_unbounded=True)
    except JunctureError as error:
        assert len(str(error)) > 20
    else:
        assert "left rows are kept" in join.explain()


def test_a_limit_that_stops_where_the_order_goes_on():
    with refused(PlanError, "left rows would be kept forever"):
        jn.stream(
            LEFT,
            RIGHT,
            jn.Where("l.a > least(r.b, 50) AND l.a < r.b + 9"),
            left_order=jn.Order("a"),
            right_order=jn.Order("b"),
        )


def test_a_window_that_ends_at_an_infinite_distance():
    schema = pa.schema({"ts": pa.float64()})
    with pytest.raises(SpecError, match=r"infinite distance \(-inf\).*Pass a finite distance"):
        jn.stream(schema, schema, jn.Range(on="ts", upper=float("-inf")), allow_unbounded=True)


def test_a_schema_that_changes_between_batches():
    join = band()
    with refused(SchemaError, "'ts'", "missing from a left batch"):
        join.push(left=left_rows(k=[1], a=[1]).drop_columns(["ts"]))
    wider = left_rows(k=[1], a=[1]).to_pylist()
    with refused(SchemaError, "'a'", "int32", "left schema has int64", "Cast"):
        join.push(left=pa.RecordBatch.from_pylist(wider, LEFT.set(1, pa.field("a", pa.int32()))))
    with refused(SchemaError, "not in the left schema", "'more'"):
        join.push(left=pa.RecordBatch.from_pylist(wider, LEFT.append(pa.field("more", pa.int32()))))
    with refused(SpecError, "dict"):
        join.push(left={"a": [1]})
    assert join.state.left.rows == 0


def test_columns_may_come_in_another_order():
    join = band()
    join.push(left=left_rows(k=[1], a=[1]).select(["name", "x", "ts", "a", "k"]))
    assert join.state.left.rows == 1


def test_null_and_nan_in_an_order_that_might_match():
    loose = jn.Where("l.x > r.y - 1 AND l.x < r.y + 1 OR l.k = r.k AND l.x < r.y + 1 AND l.x > r.y - 9")
    join = jn.stream(LEFT, RIGHT, loose, left_order=jn.Order("x"), right_order=jn.Order("y"))
    with refused(DataError, "left row 1", "null or NaN", "'x'", "Drop such rows"):
        join.push(left=left_rows(k=[1, 1], x=[1.0, float("nan")]))
    assert join.state.left.rows == 0
    # A row that is null there matches nothing: the answer has it, where it keeps rows without a match.
    kept = jn.stream(
        LEFT, RIGHT, jn.Where(loose.predicate, how="left"), left_order=jn.Order("x"), right_order=jn.Order("y")
    )
    assert [batch.num_rows for batch in kept.push(left=left_rows(k=[1], x=[None]))] == [1]
    other = jn.Where("l.k = r.k AND (l.a = r.b OR l.a IS NULL)")
    join = jn.stream(LEFT, RIGHT, other, left_order=jn.Order("a"), right_order=jn.Order("b"), allow_unbounded=True)
    with refused(DataError, "left row 0", "'a'"):
        join.push(left=left_rows(k=[1], a=[None]))


def test_nan_matches_nothing_in_a_range():
    spec = jn.Range(left_on="x", right_on="y", lower=-1.0, upper=1.0, how="left")
    join = jn.stream(LEFT, RIGHT, spec, left_order=jn.Order("x"), right_order=jn.Order("y"))
    assert [batch.num_rows for batch in join.push(left=left_rows(x=[float("nan"), None, 1.0]))] == [2]


def test_nulls_that_a_schema_rules_out():
    schema = LEFT.set(4, LEFT.field("name").with_nullable(False))
    join = jn.stream(schema, RIGHT, BAND, left_order=jn.Order("a"), right_order=jn.Order("b"))
    with refused(DataError, "'name'", "left batch has nulls"):
        join.push(left=left_rows(k=[1], a=[1]))


def test_late_rows_that_are_errors_leave_the_join_as_it_was():
    join = band(late="error")
    join.push(left=left_rows(k=[1], a=[10]))
    with refused(DataError, "left row 1", "is late", "'a': 3", "late='collect'"):
        join.push(left=left_rows(k=[1, 1], a=[11, 3]))
    assert (join.state.left.rows, join.state.left.late_rows) == (1, 0)
    join.push(left=left_rows(k=[1], a=[10]))
    assert join.state.left.rows == 2


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("noon", ("left='noon'", "'a'", "BIGINT")),
        (datetime(2024, 1, 1), ("'a'", "BIGINT")),
        (timedelta(1), ("'a'",)),
        ([1, 2], ("2 values", "1 orders")),
        (float("nan"), ("nan|NaN",)),
        (True, ("left=True",)),
    ],
)
def test_advances_of_the_wrong_kind(value, parts):
    with refused(SpecError, *parts):
        band().advance(left=value)


def test_advances_of_a_side_without_order():
    join = jn.stream(LEFT, RIGHT, BAND, left_order=jn.Order("a"), allow_unbounded=True)
    with refused(SpecError, "right=5", "needs an order", "none"):
        join.advance(right=5)
    dated = jn.stream(
        LEFT,
        RIGHT,
        jn.Range(left_on="ts", right_on="at", lower="-1h", upper=0),
        left_order=jn.Order("ts"),
        right_order=jn.Order("at"),
    )
    with refused(SpecError, "TIMESTAMP_NTZ"):
        dated.advance(left=date(2024, 1, 1))


def test_a_closed_join():
    join = band()
    join.close()
    for call in (lambda: join.push(left=left_rows(a=[1])), join.close, lambda: join.advance(left=1)):
        with refused(PlanError, "closed"):
            call()


def test_intervals_that_start_after_their_end():
    schema = pa.schema({"s": pa.int64(), "e": pa.int64()})
    spec = jn.Overlap(left_interval=("s", "e"), right_interval=("s", "e"))
    join = jn.stream(schema, schema, spec, left_order=jn.Order("s"), right_order=jn.Order("s"))
    with refused(DataError, "left interval", "starts after its end"):
        join.push(left=pa.record_batch({"s": [5], "e": [3]}))


def test_values_beyond_64_bits():
    schema = pa.schema({"t": pa.decimal128(38, 0)})
    spec = jn.Range(on="t", lower=-1, upper=1)
    join = jn.stream(schema, schema, spec, left_order=jn.Order("t"), right_order=jn.Order("t"))
    wide = pa.record_batch({"t": pa.array([10**30], pa.decimal128(38, 0))})
    with refused(DataError, "64-bit"):
        join.push(right=wide)


def test_an_asof_join_that_goes_by_table_order():
    schema = pa.schema({"t": pa.int64()})
    orders = {"left_order": jn.Order("t"), "right_order": jn.Order("t")}
    with refused(PlanError, "ties='last'", "streams have none", "order_by="):
        jn.stream(schema, schema, jn.Asof(on="t", ties="last"), **orders)


@pytest.mark.parametrize("ties", ["first", "last"])
def test_ties_that_columns_decide_are_taken(ties):
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    orders = {"left_order": jn.Order("t"), "right_order": jn.Order("t")}
    join = jn.stream(schema, schema, jn.Asof(on="t", ties=ties, order_by="v"), **orders)
    join.push(right=pa.record_batch({"t": [4, 4, 4], "v": [2, 3, 1]}, schema=schema))
    join.push(left=pa.record_batch({"t": [5], "v": [0]}, schema=schema))
    [batch] = join.close()
    assert batch["v_right"].to_pylist() == [1 if ties == "first" else 3]


def test_an_asof_join_by_what_is_known():
    left, right = pa.schema({"t": pa.int64()}), pa.schema({"t": pa.int64(), "since": pa.int64()})
    orders = {"left_order": jn.Order("t"), "right_order": jn.Order("t")}
    with refused(PlanError, r"available_at='since'", "not supported for streams", "Join in batch or over changes"):
        jn.stream(left, right, jn.Asof(on="t", available_at="since"), **orders)


def test_a_null_is_a_key_like_others_where_nulls_are_equal():
    schema = pa.schema({"k": pa.string(), "t": pa.int64()})
    orders = {"left_order": jn.Order("t"), "right_order": jn.Order("t")}
    found = {}
    for nulls_equal in (True, False):
        spec = jn.Asof(on="t", by="k", nulls_equal=nulls_equal, coalesce=False)
        join = jn.stream(schema, schema, spec, **orders)
        join.push(right=pa.record_batch({"k": [None, "a"], "t": [1, 2]}, schema=schema))
        given = join.push(left=pa.record_batch({"k": [None], "t": [3]}, schema=schema)) + join.close()
        found[nulls_equal] = [row["t_right"] for batch in given for row in batch.to_pylist()]
    assert found == {True: [1], False: [None]}


@pytest.mark.parametrize("prefer", ["earlier", "later"])
def test_of_two_that_are_as_near_one_is_preferred(prefer):
    schema = pa.schema({"t": pa.int64()})
    orders = {"left_order": jn.Order("t"), "right_order": jn.Order("t")}
    join = jn.stream(schema, schema, jn.Asof(on="t", direction="nearest", prefer=prefer, coalesce=False), **orders)
    join.push(left=pa.record_batch({"t": [5]}))
    assert join.push(right=pa.record_batch({"t": [3]})) == []
    # What is as near and later may still come, until it would be farther.
    [batch] = join.push(right=pa.record_batch({"t": [7]})) + join.close()
    assert batch["t_right"].to_pylist() == [3 if prefer == "earlier" else 7]


class FromElsewhere:
    """Rows of another library, which speaks Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def test_sides_may_be_of_different_libraries_and_have_to_be_tables():
    join = band()
    right = pa.table({name: [None] if name in ("at", "y") else [1] for name in RIGHT.names}, schema=RIGHT)
    assert len(join.push(left=left_rows(k=[1], a=[1]), right=FromElsewhere(right))) == 1
    for rows in (iter([right]), "rows", right.to_pylist()):
        with refused(SpecError, r"push\(right=", type(rows).__name__, "Arrow PyCapsule"):
            join.push(right=rows)
    with refused(SpecError, "right=", "pyarrow.Schema"):
        jn.stream(LEFT, FromElsewhere(right), BAND, left_order=jn.Order("a"), right_order=jn.Order("b"))
    with refused(SpecError, "no argument left_order=", r"jn\.stream\("):
        jn.join_range(right, right, on="b", lower=-1, left_order=jn.Order("b"))


def test_a_schema_that_changes_between_batches_of_a_reader():
    right = pa.table({name: [None] if name in ("at", "y") else [1] for name in RIGHT.names}, schema=RIGHT)
    rows = left_rows(k=[1], a=[1])
    changed = rows.set_column(1, "a", pa.array([1], pa.int32()))
    with refused(SchemaError, "'a'", "left batch", "int32", "Cast the column"):
        list(band().run([rows, changed], [right]))


def test_nan_and_null_in_the_order_of_an_asof_join():
    spec = jn.Asof(left_on="x", right_on="y", by="k")
    join = jn.stream(LEFT, RIGHT, spec, left_order=jn.Order("x"), right_order=jn.Order("y"))
    # They match nothing, and are given at once.
    [batch] = join.push(left=left_rows(k=[1, 1, 1], x=[float("nan"), None, 1.0]))
    assert (batch.num_rows, join.state.left.rows) == (2, 1)
    orders = {"left_order": [jn.Order("a"), jn.Order("x")], "right_order": jn.Order("b")}
    other = jn.stream(LEFT, RIGHT, jn.Asof(left_on="a", right_on="b"), **orders)
    with refused(DataError, "left row 0", "null or NaN", "'x'"):
        other.push(left=left_rows(a=[1], x=[float("nan")]))


def test_a_tie_that_is_an_error_ends_the_join():
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    join = jn.stream(schema, schema, jn.Asof(on="t", ties="error"), left_order=jn.Order("t"), right_order=jn.Order("t"))
    join.push(left=pa.record_batch({"t": [5], "v": [0]}))
    assert join.push(right=pa.record_batch({"t": [4, 4], "v": [1, 2]})) == []
    with refused(DataError, "tie"):
        join.push(right=pa.record_batch({"t": [6], "v": [1]}))
    with refused(PlanError, "has ended", "ties='error'"):
        join.close()


@pytest.mark.parametrize(
    "spec",
    [
        jn.Where("l.a < r.b AND l.a > r.b - 3", agg={"b": "max"}),
        jn.Equi(left_on="a", right_on="b", agg={"*": "count"}),
    ],
    ids=["where", "equi"],
)
def test_aggregates_that_no_window_holds_together(spec):
    left, right = pa.schema({"a": pa.int64()}), pa.schema({"b": pa.int64()})
    with pytest.raises(PlanError, match=r"agg= is not supported for .* of streams\. Use Range"):
        jn.stream(left, right, spec, left_order=jn.Order("a"), right_order=jn.Order("b"), allow_unbounded=True)


@pytest.mark.parametrize("falls", [False, True])
def test_a_key_that_is_nan_in_its_order_is_refused_since_nan_equals_nan(falls):
    schema = pa.schema({"x": pa.float64()})
    join = jn.stream(schema, schema, jn.Equi(on="x"), right_order=jn.Order("x", descending=falls), allow_unbounded=True)
    join.push(left=pa.table({"x": [math.nan]}), right=pa.table({"x": [1.0]}))
    with refused(DataError, "right row 0", "null or NaN", "'x'"):
        join.push(right=pa.table({"x": [math.nan]}))
