"""How changes are said: weights, kinds of change, before and after; and what cannot be understood."""

from __future__ import annotations

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SchemaError, SpecError

LEFT = pa.schema({"id": pa.int64(), "name": pa.string()})
RIGHT = pa.schema({"id": pa.int64()})
ROW = pa.struct(list(LEFT))
ADAM, EVE = {"id": 1, "name": "Adam"}, {"id": 1, "name": "Eve"}


def joined(**arguments: object) -> jn.ChangeJoin:
    """Return a join of one customer with one sale."""
    join = jn.changes(LEFT, RIGHT, jn.Equi(on="id"), **arguments)
    join.populate(left=pa.Table.from_pylist([ADAM], LEFT), right=pa.table({"id": [1]}))
    return join


def given(join: jn.ChangeJoin, **changes: object) -> list[dict[str, object]]:
    return [row for batch in join.apply(**changes) for row in batch.to_pylist()]


DEBEZIUM = pa.schema({"op": pa.string(), "before": ROW, "after": ROW, "ts_ms": pa.int64()})

RENAMED = {
    "weights": pa.Table.from_pylist([{**ADAM, "_weight": -1}, {**EVE, "_weight": 1}]),
    "small weights": pa.table(
        {"_weight": pa.array([1, -1, 0], pa.int8()), "id": [1, 1, 9], "name": ["Eve", "Adam", "Seth"]}
    ),
    "kinds of change": pa.Table.from_pylist(
        [{**EVE, "_change_type": "update_postimage"}, {**ADAM, "_change_type": "update_preimage"}]
    ),
    "Delta Lake's columns": pa.Table.from_pylist(
        [
            {**ADAM, "_change_type": "delete", "_commit_version": 3, "_commit_timestamp": None},
            {**EVE, "_change_type": "insert", "_commit_version": 3, "_commit_timestamp": None},
        ]
    ),
    "before and after": pa.Table.from_pylist([{"op": "u", "before": ADAM, "after": EVE, "ts_ms": 5}], DEBEZIUM),
    "one after the other": pa.Table.from_pylist(
        [
            {"op": "d", "before": ADAM, "after": None, "ts_ms": 5},
            {"op": "c", "before": None, "after": EVE, "ts_ms": 6},
        ],
        DEBEZIUM,
    ),
    "in several tables": [
        pa.Table.from_pylist([{**EVE, "_change_type": "insert"}]),
        pa.Table.from_pylist([{**ADAM, "_weight": -1}]),
    ],
}


@pytest.mark.parametrize("changes", RENAMED.values(), ids=RENAMED)
def test_a_change_in_all_words(changes):
    rows = sorted(given(joined(), left=changes), key=str)
    assert rows == [{**ADAM, "_weight": -1}, {**EVE, "_weight": 1}]


def test_the_answer_in_all_words():
    assert given(joined(output="change_type"), left=RENAMED["weights"]) == [
        {**ADAM, "_change_type": "delete"},
        {**EVE, "_change_type": "insert"},
    ]
    assert given(joined(output="debezium"), left=RENAMED["weights"]) == [
        {"op": "d", "before": ADAM, "after": None},
        {"op": "c", "before": None, "after": EVE},
    ]
    twice = pa.Table.from_pylist([{**ADAM, "_weight": 2}])
    assert given(joined(output="change_type"), left=twice) == [{**ADAM, "_change_type": "insert"}] * 2
    assert given(joined(), left=twice) == [{**ADAM, "_weight": 2}]


@pytest.mark.parametrize("output", ["weight", "change_type", "debezium"])
def test_the_answer_can_be_taken_in(output):
    join = joined(output=output)
    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    after = jn.changes(schema, RIGHT, jn.Equi(on="id", how="semi"))
    after.apply(left=pa.Table.from_pylist([ADAM], schema), right=pa.table({"id": [1]}))
    after.apply(left=join.apply(left=RENAMED["weights"]))
    assert after.result().to_pylist() == [EVE]


def test_what_comes_and_goes_in_one_epoch_is_no_change():
    both = pa.Table.from_pylist([{**EVE, "_weight": 1}, {**EVE, "_weight": -1}])
    assert given(joined(), left=both) == []


@pytest.mark.parametrize("predicate", ["l.id <> r.id", "l.id > r.id", "l.id <> r.id AND l.id > r.id - 1"])
@pytest.mark.parametrize("how", ["inner", "left"])
def test_aggregates_of_rows_that_fail_what_is_left_of_a_predicate(predicate, how):
    tables = {side: pa.table({"id": [1, 2], side: ["a", "b"]}).slice(0, rows) for side, rows in (("l", 2), ("r", 1))}
    spec = jn.Where(predicate, how=how, agg={"*": "count"}, allow_cross=True)
    join = jn.changes(tables["l"].schema, tables["r"].schema, spec)
    for side, table in (("left", tables["l"]), ("right", tables["r"])):
        join.apply(**{side: table.append_column("_weight", pa.array([1] * table.num_rows))})
    expected = jn.plan(tables["l"], tables["r"], spec).execute()
    assert join.result().sort_by("id").to_pylist() == expected.to_pylist()


def test_a_column_of_the_table_says_nothing_of_changes():
    schema = pa.schema({"id": pa.int64(), "op": pa.string(), "_change_type": pa.string()})
    join = jn.changes(schema, RIGHT, jn.Equi(on="id", how="semi"))
    row = {"id": 1, "op": "d", "_change_type": "none"}
    join.apply(left=pa.Table.from_pylist([row], schema), right=pa.table({"id": [1]}))
    assert join.result().to_pylist() == [row]


MISSING = pa.Table.from_pylist([{**ADAM, "_weight": -3}])


def test_a_delete_of_what_is_not_there():
    join = joined()
    with pytest.raises(DataError, match=r"delete a row that does not exist \(2 in all\).*'Adam'"):
        join.apply(left=MISSING, right=pa.table({"id": [1]}))
    assert join.epoch == 1
    assert join.result().to_pylist() == [ADAM]
    counting = joined(unmatched_deletes="count")
    assert given(counting, left=MISSING) == [{**ADAM, "_weight": -1}]
    assert (counting.left.unmatched_deletes, counting.right.unmatched_deletes) == (2, 0)
    assert given(counting, left=RENAMED["weights"]) == [{**EVE, "_weight": 1}]


def test_a_failed_epoch_takes_nothing():
    schema = pa.schema({"on": pa.int64(), "v": pa.int64()})
    join = jn.changes(schema, schema, jn.Asof(on="on", ties="error", how="full"))
    join.apply(left=pa.table({"on": [5, 7], "v": [0, 0]}), right=pa.table({"on": [4], "v": [1]}))
    before = sorted(join.result().to_pylist(), key=str)
    tied = pa.table({"on": [6, 6, 4], "v": [1, 2, 1], "_weight": [1, 1, -1]})
    for _ in range(2):
        with pytest.raises(DataError, match="tie"):
            join.apply(left=pa.table({"on": [8, 5], "v": [0, 0], "_weight": [1, -1]}), right=tied)
        assert sorted(join.result().to_pylist(), key=str) == before
    rows = given(join, right=pa.table({"on": [6], "v": [3]}))
    assert sorted((row["on"], row["v_right"], row["_weight"]) for row in rows) == [(7, 1, -1), (7, 3, 1)]


REFUSED = [
    ({"id": [1]}, SchemaError, "Column 'name' .*is missing from the left changes"),
    ({"id": ["1"], "name": ["a"]}, SchemaError, "'id' of the left changes has type string.*int64"),
    ({"id": [1], "name": ["a"], "age": [3]}, SchemaError, "are not in the left schema: 'age'"),
    ({"id": [1], "name": ["a"], "_weight": [1.0]}, SchemaError, "'_weight' of the left changes has type double"),
    ({"id": [1], "name": ["a"], "_weight": pa.array([None], pa.int64())}, DataError, "is null in row 0"),
    ({"id": [1], "name": ["a"], "_weight": pa.array([2**64 - 1], pa.uint64())}, DataError, "does not fit 64 bits"),
    ({"id": [1], "name": ["a"], "_change_type": ["upsert"]}, DataError, "is 'upsert' in row 0. Expected one of"),
    ({"id": [1], "name": ["a"], "_change_type": pa.array([None], pa.string())}, DataError, "is None in row 0"),
    ({"op": ["t"], "before": pa.nulls(1, ROW), "after": pa.nulls(1, ROW)}, DataError, "is 't' in row 0"),
    ({"op": ["u"], "before": pa.nulls(1, ROW), "after": pa.array([EVE], ROW)}, DataError, "REPLICA IDENTITY FULL"),
    ({"op": ["c"], "before": [1], "after": [1]}, SchemaError, "Expected a struct"),
]


@pytest.mark.parametrize(("columns", "error", "message"), REFUSED)
def test_changes_that_say_nothing(columns, error, message):
    join = joined()
    with pytest.raises(error, match=message):
        join.apply(left=pa.table(columns))
    assert join.epoch == 1


def test_nulls_in_a_column_that_is_declared_as_not_null():
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    join = jn.changes(schema, schema, jn.Equi(on="id"))
    with pytest.raises(DataError, match="Column 'id' of the left changes has nulls, but the left schema declares it"):
        join.apply(left=pa.table({"id": pa.array([1, None], pa.int64())}))
    assert join.epoch == 0


def test_arguments_that_make_no_sense():
    for arguments, message in (
        ({"output": "weights"}, "output='weights' is unknown"),
        ({"unmatched_deletes": "ignore"}, "unmatched_deletes='ignore' is unknown"),
        ({"memory": "much"}, "memory='much' is not a positive size"),
    ):
        with pytest.raises(SpecError, match=message):
            jn.changes(LEFT, RIGHT, jn.Equi(on="id"), **arguments)
    with pytest.raises(SpecError, match=r"is not a join\. Expected one of jn\.Asof"):
        jn.changes(LEFT, RIGHT, "id")
    with pytest.raises(SpecError, match=r"right=None \(NoneType\) is neither a schema"):
        jn.changes(LEFT, None, jn.Equi(on="id"))
    with pytest.raises(SpecError, match="left= is of type str"):
        joined().apply(left="table")
    with pytest.raises(SchemaError, match="'_weight' of the result"):
        jn.changes(LEFT.append(pa.field("_weight", pa.int64())), RIGHT, jn.Equi(on="id"))
    union = pa.schema({"id": pa.int64(), "u": pa.dense_union([pa.field("a", pa.int8())])})
    with pytest.raises(SchemaError, match=r"right column 'u' .* cannot be compared"):
        jn.changes(LEFT, union, jn.Equi(on="id"))


@pytest.mark.parametrize("passes_over", [{"available_at": "known"}, {"where": "l.at >= r.known"}], ids=str)
def test_as_of_joins_that_pass_over_right_rows(passes_over):
    left, right = pa.schema({"at": pa.int64()}), pa.schema({"at": pa.int64(), "known": pa.int64()})
    with jn.changes(left, right, jn.Asof(on="at", **passes_over)) as join:
        join.populate(left=pa.table({"at": [5]}), right=pa.table({"at": [1, 4], "known": [1, 6]}))
        assert join.result().to_pylist() == [{"at": 5, "known": 1}]
        changed = join.apply(right=pa.table({"at": [4, 4], "known": [6, 5], "_weight": [-1, 1]}))
    rows = [row for batch in changed for row in batch.to_pylist()]
    assert sorted(rows, key=lambda row: row["_weight"]) == [
        {"at": 5, "known": 1, "_weight": -1},
        {"at": 5, "known": 5, "_weight": 1},
    ]


@pytest.mark.parametrize("ties", ["first", "last"])
def test_as_of_joins_that_go_by_the_order_of_a_table(ties):
    schema = pa.schema({"at": pa.int64(), "v": pa.int64()})
    with pytest.raises(PlanError, match="changing tables have none"):
        jn.changes(schema, schema, jn.Asof(on="at", ties=ties))
    join = jn.changes(schema, schema, jn.Asof(on="at", ties=ties, order_by="v"))
    join.apply(left=pa.table({"at": [5], "v": [0]}), right=pa.table({"at": [4, 4], "v": [1, 2]}))
    assert join.result()["v_right"].to_pylist() == [1 if ties == "first" else 2]
    join.apply(right=pa.table({"at": [4, 4], "v": [0, 2], "_weight": [1, -1]}))
    assert join.result()["v_right"].to_pylist() == [0 if ties == "first" else 1]


@pytest.mark.parametrize("kind", [pa.int64(), pa.null()], ids=str)
def test_nulls_that_are_equal_in_an_as_of_join(kind):
    schema = pa.schema({"k": kind, "at": pa.int64(), "v": pa.int64()})
    join = jn.changes(schema, schema, jn.Asof(on="at", by="k", nulls_equal=True))

    def changes(weight=1, **sides) -> list[tuple]:
        tables = {
            side: pa.table({"k": pa.array([None], kind), "at": [at], "v": [v], "_weight": [weight]})
            for side, (at, v) in sides.items()
        }
        return sorted((row["v_right"], row["_weight"]) for each in join.apply(**tables) for row in each.to_pylist())

    assert changes(left=(5, 0), right=(3, 1)) == [(1, 1)]
    assert changes(right=(4, 2)) == [(1, -1), (2, 1)]
    assert changes(right=(4, 2), weight=-1) == [(1, 1), (2, -1)]
    assert join.result()["v_right"].to_pylist() == [1]


def test_a_closed_join():
    join = joined()
    join.close()
    with pytest.raises(PlanError, match="is closed"):
        join.apply(left=RENAMED["weights"])
    with pytest.raises(PlanError, match="is closed"):
        join.result()


def test_intervals_that_start_after_their_end_are_refused_and_nothing_taken():
    schema = pa.schema({"start": pa.int64(), "end": pa.int64()})
    join = jn.changes(schema, schema, jn.Overlap(left_interval=("start", "end"), right_interval=("start", "end")))
    with pytest.raises(DataError, match="start"):
        join.apply(left=pa.table({"start": [1], "end": [3]}), right=pa.table({"start": [5], "end": [2]}))
    assert join.epoch == 0
    assert join.table("left").num_rows == 0


def test_an_interval_that_starts_after_its_end_is_accepted_if_its_changes_cancel():
    schema = pa.schema({"start": pa.int64(), "end": pa.int64()})
    join = jn.changes(schema, schema, jn.Overlap(left_interval=("start", "end"), right_interval=("start", "end")))
    rows = pa.table({"start": [5, 1, 5], "end": [2, 3, 2], "_weight": [1, 1, -1]})
    join.apply(left=rows)
    assert join.table("left").to_pylist() == [{"start": 1, "end": 3}]
    with pytest.raises(DataError, match="start"):
        join.apply(left=rows.slice(0, 2))
    assert join.epoch == 1
