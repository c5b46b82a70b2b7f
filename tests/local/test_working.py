"""Types that Arrow has no kernels for: what joins work in instead, there and back, and joins that take rows of them."""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.columnar.conversion import converted
from juncture.runtime.parquet import ParquetSource
from juncture.runtime.working_types import restore_types, working_source, working_type
from support.arrays import build
from support.engines import LOCAL, LOCAL_EQUI, LOCAL_NEAR, join_in_process
from support.kinds import defined_rows, kind_of
from support.tables import canonical_rows, difference

TEXTS = ["a", "b", None, "", "a", "é"]
LISTS = [["a", None], [], None, ["b"], ["a", None], [""]]
STRUCTS = [{"a": "a"}, {"a": None}, None, {"a": "b"}, {"a": ""}, {"a": "é"}]
NUMBERS = [1, 2, None, 0, 1, -1]
UNION = [pa.field("a", pa.int64(), nullable=False), pa.field("a", pa.string_view(), metadata={"of": "text"})]
WORKING_UNION = [UNION[0], UNION[1].with_type(pa.large_string())]
UNITED = [(0, 1), (1, "a"), (1, None), (0, 2), (1, "é")]

ENCODED = [
    (pa.string_view(), pa.large_string(), TEXTS),
    (pa.dictionary(pa.int8(), pa.string_view()), pa.dictionary(pa.int8(), pa.large_string()), TEXTS),
    (pa.dictionary(pa.uint64(), pa.float16()), pa.dictionary(pa.uint64(), pa.float32()), NUMBERS),
    (pa.dictionary(pa.int16(), pa.list_(pa.string())), pa.list_(pa.string()), LISTS),
    (pa.dictionary(pa.int8(), pa.null()), pa.null(), [None, None]),
    (pa.run_end_encoded(pa.int16(), pa.decimal32(5, -2)), pa.decimal128(5, -2), [100, 100, None, None, -9_999_900]),
    (pa.run_end_encoded(pa.int64(), pa.string_view()), pa.large_string(), TEXTS),
    (pa.run_end_encoded(pa.int32(), pa.dictionary(pa.int8(), pa.string())), pa.string(), TEXTS),
    (pa.run_end_encoded(pa.int32(), pa.list_(pa.string_view())), pa.list_(pa.large_string()), LISTS),
    (pa.list_(pa.string_view()), pa.list_(pa.large_string()), LISTS),
    (pa.list_view(pa.string()), pa.list_(pa.string()), LISTS),
    (pa.large_list_view(pa.dictionary(pa.int8(), pa.string())), pa.large_list(pa.string()), LISTS),
    (pa.list_(pa.run_end_encoded(pa.int32(), pa.string())), pa.list_(pa.string()), LISTS),
    (pa.list_(pa.binary_view(), 2), pa.list_(pa.large_binary(), 2), [[b"a", None], None, [b"", b"b"]]),
    (pa.list_(pa.null()), pa.list_(pa.int8()), [[None, None], [], None, [None]]),
    (pa.struct([("a", pa.string_view())]), pa.struct([("a", pa.large_string())]), STRUCTS),
    (pa.struct([("a", pa.null())]), pa.struct([("a", pa.int8())]), [{"a": None}, None, {"a": None}]),
    (
        pa.map_(pa.string(), pa.string_view()),
        pa.map_(pa.string(), pa.large_string()),
        [[("k", "v")], [], None, [("k", None), ("l", "")]],
    ),
    (pa.uuid(), pa.binary(16), [b"0123456789abcdef", None]),
    (pa.list_(pa.uuid()), pa.list_(pa.binary(16)), [[b"0123456789abcdef", None], None]),
    (pa.sparse_union(UNION, [5, 7]), pa.sparse_union(WORKING_UNION, [5, 7]), UNITED),
    (pa.dense_union(UNION), pa.dense_union(WORKING_UNION), UNITED),
    (pa.list_(pa.dense_union(UNION)), pa.list_(pa.dense_union(WORKING_UNION)), [UNITED[:2], None, UNITED[2:]]),
]
PLAIN = [
    pa.int64(),
    pa.null(),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.struct([("a", pa.decimal128(5, 2)), ("b", pa.map_(pa.string(), pa.timestamp("ns")))])),
    pa.month_day_nano_interval(),
    pa.sparse_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
]


def rows_of(array: pa.Array) -> list[object]:
    return canonical_rows(pa.table({"x": array}))


@pytest.mark.parametrize("data_type", PLAIN, ids=str)
def test_what_arrow_can_do_stays_as_it_is(data_type):
    assert working_type(data_type) == data_type


@pytest.mark.parametrize(("data_type", "working", "values"), ENCODED, ids=[str(each[0]) for each in ENCODED])
def test_there_and_back(data_type, working, values):
    assert working_type(data_type) == working
    whole = build(values, data_type)
    for array in (whole, whole.slice(1), whole.slice(1, 1), whole.slice(2, 0)):
        there = converted(array, working)
        there.validate(full=True)
        back = converted(there, data_type)
        back.validate(full=True)
        assert (there.type, back.type) == (working, data_type)
        assert rows_of(there) == rows_of(back) == rows_of(array)


def test_null_in_a_dictionary_is_null_in_its_indices():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None, 2], pa.int8()), pa.array(["a", None, "b"]))
    moved = converted(array, array.type)
    assert moved.dictionary.to_pylist() == ["a", "b"]
    assert moved.to_pylist() == array.to_pylist() == ["a", None, "b", None, "b"]


@pytest.mark.parametrize(
    "data_type", [pa.dictionary(pa.int8(), pa.list_(pa.int64())), pa.run_end_encoded(pa.int16(), pa.list_(pa.int64()))]
)
def test_more_rows_than_a_type_can_tell_apart_come_in_several_batches(data_type):
    rows = 70_000
    lists = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), pa.array(range(rows), pa.int64()))
    schema = pa.schema([("x", data_type)])
    batches = list(restore_types([pa.record_batch({"x": lists})], schema))
    assert len(batches) > 1
    assert pa.Table.from_batches(batches, schema)["x"].to_pylist() == lists.to_pylist()


RESIDUAL = "(l.s < r.s OR l.v * r.v > 3) AND l.b <> r.b"
STRING_TYPES = [
    pa.string_view(),
    pa.run_end_encoded(pa.int32(), pa.string_view()),
    pa.dictionary(pa.uint16(), pa.string_view()),
    pa.dictionary(pa.int8(), pa.large_string()),
]
SPECS = [
    jn.Equi(on="k", where=RESIDUAL, how="full"),
    jn.Where(f"l.k = r.k AND {RESIDUAL}"),
    jn.Where(RESIDUAL, by="k", how="left"),
    jn.Where(f"l.v < r.v AND {RESIDUAL}", how="semi"),
]


@pytest.mark.parametrize("data_type", STRING_TYPES, ids=str)
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{kind_of(spec)}-{spec.how}")
def test_residual_conditions(spec, data_type):
    sides = []
    for turned in (False, True):
        order = slice(None, None, -1 if turned else 1)
        text = pa.chunked_array([build(TEXTS[order], data_type, turned=each) for each in (turned, not turned)])
        bits = pa.chunked_array([build([b"x", b"", None, b"y"] * 3, pa.binary_view())])
        number = pa.chunked_array([build((NUMBERS * 2)[order], pa.run_end_encoded(pa.int16(), pa.int64()))])
        key = pa.chunked_array([build([None, *TEXTS, *TEXTS[1:]][order], pa.string_view())])
        sides.append(pa.table({"k": key, "s": text, "b": bits, "v": number}))
    expected = defined_rows(spec, *sides)
    assert expected.num_rows > 0
    for algorithm in LOCAL_EQUI if isinstance(spec, jn.Equi) else (*LOCAL_NEAR["where"], "external_merge"):
        assert difference(join_in_process(spec, *sides, algorithm), expected, ordered=True) is None
    assert difference(jn.plan(*sides, spec).execute(), expected, ordered=True) is None


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_unions_come_back_from_every_join_that_has_no_ties(mode):
    data_type = pa.union(UNION, mode)
    left, right = (
        pa.table(
            {"id": ids, "t": ids, "u": pa.chunked_array([build(UNITED[:2], data_type), build(UNITED[2:], data_type)])}
        )
        for ids in ([3, 1, 4, 0, 2], [2, 0, 3, 1, 9])
    )
    specs = [(jn.Asof(on="t", ties="error"), each) for each in LOCAL]
    specs += [(jn.Equi(on="id", how="full"), each) for each in LOCAL_EQUI]
    specs += [(jn.Range(on="t", lower=-1, upper=0, agg={"u": "count"}), each) for each in LOCAL_NEAR["range"]]
    specs += [(jn.Where("l.id = r.id AND l.t <= r.t", how="left"), each) for each in LOCAL_NEAR["where"]]
    for spec, algorithm in specs:
        rows = join_in_process(spec, left, right, algorithm)
        assert difference(rows, defined_rows(spec, left, right), ordered=True) is None, (spec, algorithm)


def test_an_empty_table_of_another_library():
    empty, right = pl.DataFrame({"ts": [], "k": []}), pa.table({"ts": [1, 2], "k": ["a", "b"], "v": [3, 4]})
    assert empty.to_arrow().schema.types == [pa.null(), pa.null()]
    assert jn.join_asof(empty, right, on="ts", by="k").shape == (0, 3)
    filled = jn.join_asof(empty, right, on="ts", by="k", how="full")
    assert filled.equals(pl.from_arrow(right))
    assert jn.join(right, empty, on="k", how="left")["ts_right"].type == pa.null()


def test_files_of_such_types_keep_their_statistics(tmp_path):
    columns = {"on": (pa.float16(), [1.0, 2.0, 3.0, 4.0]), "name": (pa.string_view(), ["a", "b", "c", "d"])}
    table = pa.table({name: build(values, data_type) for name, (data_type, values) in columns.items()})
    table = table.append_column("at", pa.array([1, 2, 3, 4])).append_column("gone", pa.nulls(4))
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=2)
    source = ParquetSource([str(tmp_path / "table.parquet")])
    wanted = pa.schema([("on", pa.float32()), ("name", pa.large_string()), ("at", pa.int64()), ("gone", pa.date32())])
    working = working_source(source, wanted)
    assert working.schema.equals(wanted)
    assert [working.extent(part, "at").to_pylist() for part in range(2)] == [[1, 2], [3, 4]]
    [batch] = working.read(1, ["gone", "name", "on"])
    assert batch.schema.types == [pa.date32(), pa.large_string(), pa.float32()]
    assert batch.to_pydict() == {"gone": [None, None], "name": ["c", "d"], "on": [3.0, 4.0]}
