"""Joins whose rows may come in any order: the same rows, whatever the algorithm, the sizes and the memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from inequality.strategies import near_examples
from juncture.local.equi import in_memory
from juncture.local.equi import join as equi
from juncture.runtime.sort import ExternalSorter
from juncture.runtime.spill import spooled
from support.engines import LOCAL, LOCAL_EQUI, execute, join_in_process
from support.small import SMALL
from support.tables import difference, read_table
from type_table.arrow import ARROW, ARROW_NESTED

HOWS = ("inner", "left", "right", "full", "semi", "anti")
FEW = read_table("k: string | v: int64\na | 1\na | 2\nb | 3\nnull | 4")
MANY = read_table("k: string | w: int64\nz | 1\na | 2\nb | 3\na | 4\nnull | 5\nz | 6")


@pytest.mark.parametrize("algorithm", LOCAL_EQUI)
@given(data=st.data(), memory_bytes=st.sampled_from([1, 400, 2_000, 10**9]))
def test_equality_joins_give_the_same_rows(algorithm, data, memory_bytes):
    example = data.draw(near_examples("equi"))
    join = example.spec.resolve(example.left.schema, example.right.schema)
    sides = [spooled(side.schema, side.to_batches(), part_rows=3) for side in (example.left, example.right)]
    batches = execute(join, *sides, algorithm, memory_bytes=memory_bytes, in_order=False)
    expected = example.defined_unless_refused(batches)
    if expected is None:
        return
    answer = pa.Table.from_batches(batches, join.user_schema(example.left.schema, example.right.schema))
    assert difference(answer, expected, ordered=False) is None


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["range", "overlap", "where"])
def test_joins_on_disk_give_the_same_rows(kind, how):
    chance = np.random.default_rng(5)
    first = chance.integers(0, 200, 300)
    left, right = (pa.table({"v": first[:count], "w": first[:count] + 9}) for count in (200, 300))
    pair = ("v", "w")
    specs = {
        "range": jn.Range(on="v", lower=-30, upper=10, how=how),
        "overlap": jn.Overlap(left_interval=pair, right_interval=pair, how=how),
        "where": jn.Where("l.v - 5 <= r.v AND r.v <= l.v + 5", how=how),
    }
    memory_bytes = 110 * right.num_rows
    answer = join_in_process(specs[kind], left, right, "external_merge", memory_bytes=memory_bytes, in_order=False)
    assert (
        difference(
            answer,
            join_in_process(specs[kind], left, right, "interval_tree" if kind == "overlap" else "binary_search"),
            ordered=False,
        )
        is None
    )


TIGHT = {
    jn.Asof(on="t", by="k", ties="last"): LOCAL,
    jn.Asof(on="t", how="full", ties="last"): LOCAL,
    jn.Range(on="t", by="k", lower=-1, upper=1): ("external_merge",),
    jn.Overlap(left_interval=("t", "end"), right_interval=("t", "end"), how="full"): ("external_merge",),
    jn.Where("l.t <= r.t AND r.t <= l.t + 1", how="left"): ("external_merge",),
    jn.Equi(on=("k", "t"), how="full"): ("grace", "external_sort_merge"),
}


@pytest.mark.parametrize(
    ("spec", "algorithm"),
    [pytest.param(spec, each, id=f"{spec.kind}-{spec.how}-{each}") for spec, some in TIGHT.items() for each in some],
)
def test_every_type_goes_to_disk_and_comes_back(spec, algorithm):
    """Each row carries a number, by which its values are known again, of as many types as there are."""
    columns = {f"x{place}": each for place, each in enumerate((*ARROW.types, *ARROW_NESTED.types))}
    places = [*range(4), None] * 6
    values = {name: each.column(each.fitted(places)) for name, each in columns.items()}
    codes = {"t": [7 * row % 11 for row in range(30)], "k": [row % 2 for row in range(30)]}
    right = pa.table({**codes, "end": [t + 1 for t in codes["t"]], "row": range(30), **values})
    left = right.select(["t", "k", "end", "row"]).rename_columns(["t", "k", "end", "left_row"])
    # Of as-of joins the left side is cut into pieces, where the right one may fit.
    copies, memory_bytes = (10, 150_000) if spec.kind == "asof" else (1, 20_000)
    left = pa.concat_tables([left] * copies)
    expected = join_in_process(spec, left, right.select(["t", "k", "end", "row"]), "auto")
    options = {"memory_bytes": memory_bytes, "in_order": False, "sizes": SMALL}
    answer = join_in_process(spec, left, right, algorithm, **options)
    answer.validate(full=True)
    assert difference(answer.select(expected.column_names), expected, ordered=False) is None
    rows = answer["row"].to_pylist()
    for name, column in values.items():
        assert answer.schema.field(name).type == column.type
        own = column.to_pylist()
        assert answer[name].to_pylist() == [None if row is None else own[row] for row in rows], columns[name].name


@pytest.mark.parametrize("coalesce", [True, False])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("key", [pa.string(), pa.float64(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_the_smaller_side_is_held_on_either_side(key, how, coalesce, monkeypatch):
    held = []
    stream_held = in_memory.stream_held
    sides = [table.set_column(0, "k", keys_of(table["k"], key)) for table in (FEW, MANY)]
    for left, right in (sides, reversed(sides)):
        spec = jn.Equi(on="k", how=how, coalesce=coalesce)
        expected = join_in_process(spec, left, right, "hash")
        with monkeypatch.context() as patch:
            for module in (equi, in_memory):
                patch.setattr(module, "stream_held", lambda *rest: held.append(rest[2].num_rows) or stream_held(*rest))
            answer = join_in_process(spec, left, right, "hash", in_order=False)
        assert difference(answer, expected, ordered=False) is None
    assert held == [MANY.num_rows if how in ("semi", "anti") else FEW.num_rows, FEW.num_rows]


def keys_of(texts, key):
    """Return keys of a type, by texts; of floats, equal ones need not look the same."""
    if key != pa.float64():
        return texts.cast(key)
    values = {"a": (0.0, -0.0), "b": (float("nan"),) * 2, "z": (2.0, 2.0), None: (None, None)}
    return pa.array([values[text][number % 2] for number, text in enumerate(texts.to_pylist())], pa.float64())


def test_nothing_is_sorted_or_written_where_a_side_fits(monkeypatch):
    rows = 50_000
    few, many = pa.table({"k": range(100)}), pa.table({"k": [number % 200 for number in range(rows)]})
    monkeypatch.setattr(ExternalSorter, "sort", None)
    answer = join_in_process(jn.Equi(on="k"), few, many, "grace", memory_bytes=200_000, in_order=False)
    assert answer.num_rows == rows // 2


@pytest.mark.parametrize("order", ["left", None])
def test_every_join_takes_an_order(order):
    left = pa.table({"ts": [5, 1], "until": [7, 3]})
    right = pa.table({"ts": [1, 4, 9], "until": [2, 6, 9]})
    pair = {"left_interval": ("ts", "until"), "right_interval": ("ts", "until")}
    for join, arguments in (
        (jn.join, {"on": "ts"}),
        (jn.join_asof, {"on": "ts"}),
        (jn.join_range, {"on": "ts", "lower": -5}),
        (jn.join_overlap, pair),
        (jn.join_where, {"predicate": "l.ts >= r.ts"}),
    ):
        answer = join(left, right, maintain_order=order, **arguments)
        assert difference(answer, join(left, right, **arguments), ordered=order is not None) is None


@pytest.mark.parametrize("order", ["right", "left_right", True, False, "", 1, ["left"]])
def test_no_other_order_is_known(order):
    said = r"maintain_order=.* is unknown\. Expected 'left' \(the order of the left rows\) or None \(any order\)\."
    with pytest.raises(jn.SpecError, match=said):
        jn.plan(FEW, MANY, jn.Equi(on="k"), maintain_order=order)
