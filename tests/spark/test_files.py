"""Parquet files that are named by paths: Spark reads the same rows of them as a join in-process does."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import juncture as jn
from juncture.errors import DataError, SchemaError
from juncture.runtime.stores import place_of
from support.arrays import build
from support.engines import SPARK, SPARK_NEAR
from support.files import write_short
from support.lakes import write_lake
from support.object_store import object_store

pytestmark = pytest.mark.in_turn

LEFT = pa.table({"ts": [1, 3, 5, None], "k": ["a", "b c", "a", "b c"], "x": [10, 20, 30, 40]})
SPECS: list[tuple[Any, tuple[str, ...]]] = [
    (jn.Asof(on="ts", by="k"), SPARK),
    (jn.Range(left_on="ts", right_on="ts", by="k", lower=-2, upper=0), SPARK_NEAR["range"]),
    (jn.Equi(on="k", how="left"), ("broadcast", "shuffle_hash")),
    (jn.Where("l.ts > r.ts AND r.n < l.x", by="k"), ("range", "sql")),
]


@pytest.fixture
def left(tmp_path: Path) -> str:
    pq.write_table(LEFT, tmp_path / "left.parquet")
    return str(tmp_path / "left.parquet")


@pytest.fixture
def specs(request: pytest.FixtureRequest) -> Callable[[int], Any]:
    """Return what gives the joins of a turn: with one algorithm each, another one every turn, or in each with all."""
    everything = request.config.getoption("--all")

    def of_turn(turn: int) -> Any:
        return SPECS if everything else [(spec, (names[turn % len(names)],)) for spec, names in SPECS]

    return of_turn


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def check(spark: Any, left: Any, right: Any, specs: Any) -> None:
    """Expect that algorithms on Spark give what a join in-process does."""
    for spec, algorithms in specs:
        expected = jn.plan(left, right, spec).execute()
        for algorithm in algorithms:
            answer = jn.plan(left, right, spec, algorithm=algorithm, spark=spark).execute()
            assert answer.columns == expected.schema.names
            assert rows(answer.toArrow()) == rows(expected), (spec, algorithm)


def write(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


PARTITIONS = {
    "read alike": ["k=a/n=1", "k=b%20c/n=02", "k=__HIVE_DEFAULT_PARTITION__/n=3"],
    "not as Spark does": ["k=a/n=1", "k=b c/x/n=2", "k=%C3%A9/n=-1", "k=/n=__HIVE_DEFAULT_PARTITION__"],
    "below several folders": ["y/k=a/n=1", "z/k=b c/n=2/deep"],
    "patterns": ["k=[a]/n=1", "k={a,b}*?\\/n=2", "k=a/n=3"],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", PARTITIONS)
def test_folders_that_stand_for_columns(spark, tmp_path, left, specs, name):
    for number, folder in enumerate(PARTITIONS[name]):
        write(tmp_path / "in" / folder / "rows.parquet", pa.table({"ts": [number, number + 1], "v": [number, -number]}))
    turn = list(PARTITIONS).index(name)
    check(spark, left, tmp_path / "in", specs(turn))
    check(spark, left, f"{tmp_path}/in/*/*", specs(turn)[2:3])
    answer = jn.join(left, tmp_path / "in", on="k", spark=spark)
    assert answer.schema.simpleString().endswith("v:bigint,n:int>")


def test_folders_that_stand_for_keys_and_times(spark, tmp_path):
    for number in range(4):
        write(tmp_path / "in" / f"n={number}" / "rows.parquet", pa.table({"v": [number, -number]}))
    write(tmp_path / "left.parquet", pa.table({"n": pa.array([0, 3, 9, None], pa.int64())}))
    specs = [
        (jn.Asof(on="n", matches=2), ("broadcast", "broadcast_left", "range")),
        (jn.Equi(on="n", how="full", coalesce=False), ("shuffle_hash", "sort_merge")),
    ]
    check(spark, tmp_path / "left.parquet", tmp_path / "in", specs)
    check(spark, tmp_path / "in", tmp_path / "left.parquet", specs[:1])


def test_dataframes_keep_the_columns_of_their_folders(spark, tmp_path, left):
    for day in (1, 2):
        write(tmp_path / "in" / f"day=2026-01-0{day}" / "k=a" / "rows.parquet", pa.table({"ts": [day], "v": [day]}))
    frames = spark.read.parquet(left), spark.read.parquet(str(tmp_path / "in"))
    answer = jn.join_asof(*frames, on="ts", by="k")
    assert answer.schema.simpleString().endswith("v:bigint,day:date>")
    [row] = answer.where("x = 30").collect()
    assert (row.v, str(row.day)) == (2, "2026-01-02")


def test_files_that_differ_in_not_null(spark, tmp_path, left, specs):
    def nested(*, nullable: bool) -> pa.DataType:
        item = pa.field("a" if nullable else "element", pa.int64(), nullable)
        return pa.struct([pa.field("l", pa.list_(item), nullable), pa.field("s", pa.string(), nullable)])

    for number, nullable in enumerate((False, True)):
        values = [{"l": [1, 2], "s": "x"}, {"l": [None], "s": None} if nullable else {"l": [], "s": ""}]
        fields = [
            pa.field("ts", pa.int64(), nullable),
            pa.field("k", pa.string(), nullable),
            pa.field("n", pa.int64(), not nullable),
            pa.field("v", nested(nullable=nullable), nullable),
        ]
        columns = [[number, None if nullable else 4], ["a", "b c"], [number, 5], values]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
        write(tmp_path / "in" / f"{number}.parquet", pa.table(arrays, schema=pa.schema(fields)))
    check(spark, left, tmp_path / "in", specs(4))


def test_files_of_several_libraries(spark, tmp_path, left, specs):
    """Columns come in any order, and types differ that are one in Parquet."""
    rows = pa.table({"ts": [1, 3], "k": ["a", "b c"], "n": [1, 2], "l": [["x"], []]})
    write(tmp_path / "in" / "0.parquet", rows)
    types = {"k": pa.large_string(), "l": pa.large_list(pa.large_string())}
    other = pa.schema([field.with_type(types.get(field.name, field.type)) for field in rows.schema])
    write(tmp_path / "in" / "1.parquet", rows.cast(other).select(["l", "k", "n", "ts"]))
    coded = rows.set_column(1, "k", rows["k"].dictionary_encode())
    write(tmp_path / "in" / "2.parquet", coded.select(["n", "l", "ts", "k"]))
    check(spark, left, tmp_path / "in", specs(0))


def test_files_that_lack_columns(spark, tmp_path, left, specs):
    rows = pa.table({"ts": [1, 3], "k": ["a", "b c"], "n": [1, 2]})
    write(tmp_path / "in" / "0.parquet", rows)
    write(tmp_path / "in" / "1.parquet", rows.drop(["k"]).append_column("m", rows["k"]))
    check(spark, left, jn.Files(tmp_path / "in", union_by_name=True), specs(1))
    with pytest.raises(DataError, match=r"column 'k' is missing in '\S*1\.parquet'"):
        jn.join_asof(left, tmp_path / "in", on="ts", by="k", spark=spark)


ENCODED = {
    "narrow dictionaries": pa.dictionary(pa.int8(), pa.string()),
    "large dictionaries": pa.dictionary(pa.int16(), pa.large_string()),
    "views": pa.string_view(),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ENCODED)
def test_encodings_that_spark_has_not(spark, tmp_path, request, name):
    """Each row group has other dictionaries, and a narrow one has no room for the values of all."""
    words = pa.array([f"w{number // 2}" for number in range(280)], pa.string())
    for side in ("left", "right"):
        path, schema = tmp_path / f"{side}.parquet", pa.schema([("ts", pa.int64()), ("k", ENCODED[name])])
        with pq.ParquetWriter(path, schema) as writer:
            for start in range(0, 280, 70):
                keys = words.slice(start, 70)
                keys = keys.dictionary_encode() if pa.types.is_dictionary(schema.types[1]) else keys
                rows = pa.table([pa.array(range(start, start + 70)), keys.cast(schema.types[1])], schema=schema)
                writer.write_table(rows)
    specs = [
        (jn.Asof(on="ts", by="k"), ("broadcast", "broadcast_left", "hash")),
        (jn.Asof(on="ts", direction="forward", coalesce=False), ("range", "window")),
        (jn.Range(left_on="ts", right_on="ts", lower=-1, upper=1, how="full"), ("range", "bins")),
        (jn.Equi(on="k", how="full"), ("shuffle_hash",)),
        (jn.Where("l.k = r.k AND l.ts <= r.ts"), ("range", "broadcast", "sql")),
    ]
    if not request.config.getoption("--all"):
        # Each encoding with each join, by one algorithm.
        turn = list(ENCODED).index(name)
        specs = [(spec, (algorithms[turn % len(algorithms)],)) for spec, algorithms in specs]
    check(spark, tmp_path / "left.parquet", tmp_path / "right.parquet", specs)


def test_ordered_categories_have_no_order_on_spark_either(spark, tmp_path, left):
    sizes = pa.array([1, 0, 1, 0], pa.int8())
    sizes = pa.DictionaryArray.from_arrays(sizes, pa.array(["small", "large"]), ordered=True)
    write(tmp_path / "sizes.parquet", pa.table({"ts": [1, 2, 3, 4], "size": sizes}))
    for name in ("ts < r.ts AND l.k < r.size", "ts < r.ts AND r.size BETWEEN 'a' AND 'z'"):
        with pytest.raises(SchemaError, match=r"the right column 'size' is of ordered categories"):
            jn.join_where(left, tmp_path / "sizes.parquet", f"l.{name}", spark=spark)
    check(spark, left, tmp_path / "sizes.parquet", [(jn.Asof(on="ts"), ("range",))])


def test_nested_layouts_that_spark_has_not(spark, tmp_path):
    values = [["a"], [None], None, []]
    types = {
        "views": pa.list_(pa.string_view()),
        "view": pa.list_view(pa.string()),
        "coded": pa.list_(pa.dictionary(pa.int8(), pa.string())),
    }
    table = pa.table({"ts": range(4)} | {name: build(values, data_type) for name, data_type in types.items()})
    for side in ("left", "right"):
        pq.write_table(table, tmp_path / f"{side}.parquet", row_group_size=4)
    specs: list[tuple[Any, tuple[str, ...]]] = [(jn.Asof(on="ts"), ("broadcast", "range"))]
    specs += [(jn.Equi(on=name, how="left"), ("shuffle_hash",)) for name in types]
    check(spark, tmp_path / "left.parquet", tmp_path / "right.parquet", specs)


def test_96_bit_timestamps(spark, tmp_path):
    times = [
        datetime(1, 1, 3),
        datetime(1677, 1, 1),
        datetime(2024, 5, 6, 7, 8, 9, 123456),
        datetime(9999, 12, 31),
        None,
    ]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us")), "v": range(5)})
    for name in ("left", "right"):
        pq.write_table(table, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=True)
    specs = [
        (jn.Asof(on="ts"), ("broadcast", "broadcast_left", "range", "window")),
        (jn.Equi(on="ts"), ("shuffle_hash",)),
    ]
    check(spark, tmp_path / "left.parquet", tmp_path / "right.parquet", specs)


def test_a_file_that_is_named_twice(spark, tmp_path, left, specs):
    write(tmp_path / "a.parquet", pa.table({"ts": [1, 2], "k": ["a", "b c"], "n": [1, 2]}))
    path = str(tmp_path / "a.parquet")
    check(spark, left, [path, path, str(tmp_path / "a.*")], specs(3))


def test_relative_paths(spark, tmp_path, left, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check(
        spark,
        "left.parquet",
        ["left.parquet"],
        [(jn.Equi(on="k"), ("shuffle_hash",)), (jn.Asof(on="ts"), ("broadcast",))],
    )


def fails(spark: Any, left: Any, right: Any, said: str) -> None:
    for algorithm in ("broadcast", "broadcast_left", "range"):
        with pytest.raises(Exception, match=said):
            jn.join_asof(left, right, on="ts", by="k", algorithm=algorithm, spark=spark).toArrow()


def test_a_row_group_that_is_shorter_than_its_footer_says(spark, tmp_path, left):
    write_short(tmp_path / "short.parquet")
    said = r"Row group 0 of the Parquet file .*short\.parquet' has 10 rows, but 11 by its footer"
    fails(spark, left, tmp_path / "short.parquet", said)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("algorithm", ["broadcast", "broadcast_left", "range"])
def test_a_file_that_changes_before_the_tasks_run(spark, tmp_path, left, algorithm):
    path = tmp_path / "in" / "right.parquet"
    table = pa.table({"ts": [1, 2], "k": ["a", "b c"], "n": [1, 2]})

    def planned() -> Any:
        write(path, table)
        # A range join has looked at the rows by then: its tasks read them again.
        return jn.plan(left, path, jn.Asof(on="ts", by="k"), algorithm=algorithm, spark=spark)

    for other in (table.slice(0, 1), pa.table({"ts": [1, 2], "k": ["a", "b c"], "n": [1, 3]})):
        plan = planned()
        write(path, other)
        with pytest.raises(Exception, match=r"DataError: .*right\.parquet' has changed since the join was planned"):
            plan.execute().toArrow()
    plan = planned()
    shutil.rmtree(path.parent)
    with pytest.raises(Exception, match=r"DataError: .*right\.parquet' was removed since the join was planned"):
        plan.execute().toArrow()


def test_tasks_read_the_current_files_of_a_lake_table(spark, tmp_path, left, specs):
    folder = str(tmp_path / "lake")
    table = pa.table({"ts": [1, 2, 4, 2], "k": ["a", "b c", "a", None], "n": [1, 2, 3, 4], "v": [1.0, 2.0, None, 4.0]})
    write_deltalake(folder, table, partition_by=["k", "n"])
    DeltaTable(folder).delete("n = 2")
    write_deltalake(folder, table.append_column("more", [table["k"]]), mode="append", schema_mode="merge")
    for turn, right in enumerate((folder, jn.Files(folder, version=1))):
        check(spark, left, right, specs(turn))
    DeltaTable(folder).delete()
    joined = jn.join_asof(left, folder, on="ts", by="k", spark=spark).toArrow()
    assert rows(joined) == rows(jn.join_asof(left, folder, on="ts", by="k"))


def test_folders_that_are_refused(spark, tmp_path, left):
    for folder in ("n=1", "deep"):
        write(tmp_path / "in" / folder / "rows.parquet", pa.table({"ts": [1], "k": ["a"]}))
    with pytest.raises(DataError, match=r"define the column 'n', but the folders of .* no columns"):
        jn.join_asof(left, tmp_path / "in", on="ts", by="k", spark=spark)
    write_lake(tmp_path / "lake", "Delta", pa.table({"ts": [1], "k": ["a"]}))
    for path in ("lake/day=1", "lake/*/*.parquet"):
        with pytest.raises(DataError, match=r"lake' is a Delta table"):
            jn.join_asof(left, tmp_path / path, on="ts", by="k", spark=spark)


def test_files_in_an_object_store(spark, left):
    content = Path(left).read_bytes()
    buckets = {"bucket": {f"day={day}/a.parquet": content for day in (1, 2)}}
    with object_store(buckets) as options:
        filesystem, _ = place_of(f"s3://key:secret@bucket/{options}")
        rights = (f"s3://key:secret@bucket/day=*{options}", jn.Files("bucket", filesystem=filesystem))
        for right in rights:
            plan = jn.plan(left, right, jn.Asof(on="ts", by="k", order_by="day"), spark=spark)
            assert "secret" not in plan.explain()
            assert rows(plan.execute().toArrow()) == rows(jn.join_asof(left, right, on="ts", by="k", order_by="day"))
