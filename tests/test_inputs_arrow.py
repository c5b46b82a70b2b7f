"""What is Arrow's own: what fields say besides their type, tables without columns, datasets, and streams."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import juncture as jn

LEFT = pa.table({"ts": [2, 5, 8], "k": ["a", "a", "b"]})
RIGHT = pa.table({"at": [1, 4, 8], "k": ["a", "a", "b"], "v": [1.0, 2.0, 3.0]})


def schema_of(side: str) -> pa.Schema:
    fields = [pa.field("k", pa.int64(), False, {"of": side}), pa.field(side, pa.int8(), True, {"unit": "m"})]
    nested = pa.struct([pa.field("a", pa.int8(), metadata={"inner": side})])
    return pa.schema([*fields, pa.field(f"{side} nested", nested, False)], metadata={"table": side})


def described(side: str, keys: list[int]) -> pa.Table:
    columns = [pa.array(keys), pa.array([1] * len(keys), pa.int8()), pa.array([{"a": 1}] * len(keys))]
    schema = schema_of(side)
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_what_fields_say_stays(how):
    plan = jn.plan(described("left", [1, 2]), described("right", [1, 3]), jn.Equi(on="k", how=how))
    left, right = schema_of("left"), schema_of("right")
    if how in ("right", "full"):
        # Its values are of both tables.
        left = left.set(0, left.field(0).with_metadata({}))
    lefts = [field.with_nullable(field.nullable or how in ("right", "full")) for field in left]
    rights = [field.with_nullable(field.nullable or how != "inner") for field in right][1:]
    fields = lefts if how in ("semi", "anti") else [*lefts, *rights]
    expected = pa.schema(fields, metadata={"table": "left"})
    for answer in (plan.execute(), plan.batches().read_all()):
        assert answer.schema.equals(expected, check_metadata=True)
        answer.validate(full=True)


def test_what_the_fields_of_files_say_stays(tmp_path):
    pq.write_table(described("left", [1, 2]), tmp_path / "left.parquet")
    answer = jn.join(tmp_path / "left.parquet", described("right", [1]), on="k")
    assert answer.schema.field("left").metadata[b"unit"] == b"m"
    assert answer.schema.metadata[b"table"] == b"left"


NO_COLUMNS = pa.table({"x": [1, 2, 3]}).select([])
WITHOUT_COLUMNS: dict[str, Any] = {
    "table": lambda: NO_COLUMNS,
    "batch": lambda: NO_COLUMNS.to_batches()[0],
    "stream": lambda: NO_COLUMNS.to_reader(),
    "batches": lambda: iter([NO_COLUMNS.to_batches()[0].slice(0, 1), *pa.table({"x": [1, 2]}).select([]).to_batches()]),
    "dataset": lambda: ds.dataset(NO_COLUMNS),
    "pandas": lambda: pd.DataFrame(index=range(3)),
}


def rows_of(answer: pa.Table | pd.DataFrame) -> int:
    return len(answer) if isinstance(answer, pd.DataFrame) else answer.num_rows


@pytest.mark.parametrize("form", WITHOUT_COLUMNS)
def test_rows_without_columns_count(form):
    make, right = WITHOUT_COLUMNS[form], pa.table({"b": [1, 2, 3, 4]})
    matches = {"inner": 6, "left": 6, "right": 8, "full": 8, "semi": 3, "anti": 0}
    for how, rows in matches.items():
        assert rows_of(jn.join_where(make(), right, "r.b > 2", how=how, allow_cross=True)) == rows, how
    unmatched = {"inner": 0, "left": 3, "right": 4, "full": 7, "semi": 0, "anti": 3}
    for how, rows in unmatched.items():
        assert rows_of(jn.join_where(make(), right, "r.b > 9", how=how, allow_cross=True)) == rows, how
    matches = {"inner": 6, "left": 8, "right": 6, "full": 8, "semi": 2, "anti": 2}
    for how, rows in matches.items():
        answer = jn.join_where(right, make(), "l.b > 2", how=how, allow_cross=True)
        assert (rows_of(answer), answer.column_names) == (rows, ["b"]), how


def test_files_without_columns(tmp_path):
    pq.write_table(NO_COLUMNS, tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_file(file, NO_COLUMNS.schema) as writer:
        writer.write_table(NO_COLUMNS)
    # The Parquet writer of Arrow drops such rows.
    for name, count in {"a.parquet": 0, "a.arrow": 3}.items():
        path, other = str(tmp_path / name), pa.table({"b": [1, 2, 3]})
        assert rows_of(jn.join_where(path, other, "r.b > 1", allow_cross=True)) == 2 * count
        assert rows_of(jn.join_where(other, path, "l.b > 1", how="left", allow_cross=True)) == 1 + (2 * count or 2)


@pytest.mark.parametrize("form", WITHOUT_COLUMNS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_neither_side_has_columns(form, how):
    make = WITHOUT_COLUMNS[form]
    plan = jn.plan(make(), NO_COLUMNS, jn.Where("true", how=how, allow_cross=True))
    answer = plan.execute()
    assert rows_of(answer) == {"semi": 3, "anti": 0}.get(how, 9)
    assert len(answer.columns) == 0
    if form == "table":
        assert plan.batches().read_all().num_rows == rows_of(answer)


def dataset(form: str, folder: Any) -> ds.Dataset:
    if form == "in memory":
        return ds.dataset(RIGHT)
    for part in range(2):
        pq.write_table(RIGHT.slice(part * 2, 2), folder / f"{part}.parquet")
    if form == "files":
        return ds.dataset(folder)
    ds.write_dataset(RIGHT, folder / "parts", format="parquet", partitioning=["k"], partitioning_flavor="hive")
    return ds.dataset(folder / "parts", partitioning="hive")


@pytest.mark.parametrize("form", ["in memory", "files", "hive"])
def test_a_dataset_is_read_again_and_again(tmp_path, form):
    table = dataset(form, tmp_path)
    expected = jn.join_asof(LEFT, RIGHT, left_on="ts", right_on="at", by="k")
    plan = jn.plan(LEFT, table, jn.Asof(left_on="ts", right_on="at", by="k"))
    for _ in range(2):
        assert plan.execute().select(expected.column_names).equals(expected)
    flipped = jn.join(table, LEFT, left_on="at", right_on="ts", how="semi")
    assert sorted(flipped["at"].to_pylist()) == [8]


def test_a_filtered_dataset_and_a_scanner(tmp_path):
    table = dataset("files", tmp_path)
    assert jn.join(LEFT, table.filter(ds.field("at") > 4), on="k")["v"].to_pylist() == [3.0]
    scanner = table.scanner(columns=["k", "v"], filter=ds.field("at") > 4)
    plan = jn.plan(LEFT, scanner, jn.Equi(on="k"))
    assert plan.execute()["v"].to_pylist() == [3.0]
    with pytest.raises(jn.PlanError, match="The right table is a reader that an earlier"):
        plan.execute()


def test_a_dataset_that_cannot_be_read(tmp_path):
    table = dataset("files", tmp_path)
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(jn.DataError, match="The right table is a dataset that cannot be read"):
        jn.join(LEFT, table, on="k")


def test_a_dataset_is_in_this_process():
    with pytest.raises(jn.PlanError, match="in this process, but spark= is set"):
        jn.join(ds.dataset(LEFT), "right.parquet", on="k", spark=object())


@pytest.mark.parametrize("column", [pa.array([1]), pa.chunked_array([[1]]), pa.array([{"a": 1}])])
def test_a_column_is_no_table(column):
    with pytest.raises(jn.SpecError, match=r"which is a single column.*pyarrow.table"):
        jn.join(LEFT, column, on="k")


class Numbers:
    """Speaks Arrow, but of numbers instead of rows."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.chunked_array([[1, 2]]).__arrow_c_stream__(requested_schema)


def test_a_stream_of_no_rows():
    with pytest.raises(jn.SpecError, match=r"The right table is a \w+.Numbers, which is not a table"):
        jn.join(LEFT, Numbers(), on="k")


def test_batches_of_several_schemas():
    batches = [RIGHT.to_batches()[0], RIGHT.select(["k"]).to_batches()[0]]
    with pytest.raises(jn.SchemaError, match=r"iterable of batches with different columns: k \(str.* after .*at \("):
        jn.join(LEFT, iter(batches), on="k")
    with pytest.raises(jn.SpecError, match="right table is an iterable that also contains a dict"):
        jn.join(LEFT, iter([batches[0], {}]), on="k")
