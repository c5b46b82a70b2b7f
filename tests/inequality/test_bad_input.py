"""Wrong input of range, overlap and predicate joins: the right exception, one message, and nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import juncture as jn
from juncture.cli.main import app
from support.engines import to_spark
from support.kinds import Spec, defined_rows
from support.tables import difference, read_table

pytestmark = [pytest.mark.usefixtures("scratch"), pytest.mark.in_turn]

LEFT = read_table("ts: int64 | until: int64 | k: string | at: timestamp[us]\n2 | 5 | a | 2026-01-01\n5 | 9 | b | null")
RIGHT = read_table(
    "ts: int64 | end: int64 | k: string | at: timestamp[us, UTC]\n1 | 3 | a | 2026-01-01\n4 | 7 | b | null"
)
RANGE = {"on": "ts", "by": "k"}
PAIR = {"left_interval": ("ts", "until"), "right_interval": ("ts", "end")}
SPECS: dict[str, Spec] = {
    "range": jn.Range(**RANGE, lower=-3, upper=1),
    "overlap": jn.Overlap(**PAIR, by="k"),
    "where": jn.Where("l.ts - 3 <= r.ts AND r.ts <= l.ts + 1 AND l.k = r.k"),
}
JOINS = {"range": jn.join_range, "overlap": jn.join_overlap, "where": jn.join_where}

BAD_ARGUMENTS = [
    ("range", {**RANGE, "lower": 1, "upper": 0}, jn.SpecError, ["lower=1", "upper=0", "nothing would match", "Swap"]),
    ("range", {"on": "ts"}, jn.SpecError, ["unbounded on both sides"]),
    ("range", {"on": "ts", "lower": "-1h"}, jn.SpecError, ["lower='-1h' is a duration", "Pass a number"]),
    ("range", {"on": "at", "lower": "-1h"}, jn.SchemaError, ["time zone", "left 'at'", "right 'at'"]),
    ("range", {"left_on": "ts", "right_on": "at", "lower": 0}, jn.SchemaError, ["no common values", "'at'", "Cast"]),
    ("range", {"on": "ts", "lower": "k"}, jn.SchemaError, ["'k' is a left column of type string", "an integer column"]),
    ("range", {"on": "ts", "lwoer": 0}, jn.SpecError, ["no argument lwoer=0", "Did you mean 'lower'?"]),
    ("range", {"on": "ts", "lower": 0, "agg": {"v": "mean"}}, jn.SchemaError, ["agg='v' is not a column"]),
    ("range", {"on": "ts", "lower": 0, "algorithm": "bukcet"}, jn.SpecError, ["'bukcet' is unknown", "'auto'"]),
    ("overlap", {"left_interval": ("ts", None), "right_interval": "ts"}, jn.SpecError, ["not a pair of columns"]),
    ("overlap", {**PAIR, "right_interval": ("ts", "at")}, jn.SchemaError, ["no common values", "right 'at'"]),
    ("overlap", {**PAIR, "by": "key"}, jn.SchemaError, ["by='key' is not a column"]),
    ("where", {"predicate": "l.ts >"}, jn.SpecError, ["The predicate cannot be read", "l.ts >\n", "^"]),
    (
        "where",
        {"predicate": "l.ts > r.ts AND log(r.ts) > 1"},
        jn.SpecError,
        ["Function 'log' is unknown", "\n    l.ts"],
    ),
    (
        "where",
        {"predicate": "l.ts > 1 AND r.ts > 2"},
        jn.PlanError,
        ["no condition with columns of both tables", "allow_cross=True"],
    ),
    ("where", {"predicate": "l.at > r.at"}, jn.SchemaError, ["TIMESTAMP_NTZ and TIMESTAMP do not compare", "^^^"]),
    ("where", {"predicate": "l.ts > r.tss"}, jn.SchemaError, ["'tss' is not a column", "Did you mean 'ts'?", "^^^^^"]),
]


@pytest.fixture(scope="module")
def tables(spark_or_none: Any) -> tuple[Any, Any]:
    """The two tables as inputs of each engine."""
    return (to_spark(spark_or_none, LEFT), to_spark(spark_or_none, RIGHT)) if spark_or_none else (LEFT, RIGHT)


@pytest.mark.parametrize(("kind", "arguments", "error", "said"), BAD_ARGUMENTS)
def test_arguments(tables, kind, arguments, error, said):
    with pytest.raises(error) as raised:
        JOINS[kind](*tables, **arguments)
    assert type(raised.value) is error
    for part in said:
        assert part in str(raised.value)


@pytest.mark.parametrize("kind", SPECS)
def test_an_algorithm_of_the_other_engine(tables, kind):
    algorithm, said = ("bins", "runs on Spark") if tables[0] is LEFT else (IN_PROCESS[kind], "runs in-process")
    with pytest.raises(jn.PlanError, match=f"{said}.* Use one of 'auto'"):
        jn.plan(*tables, SPECS[kind], algorithm=algorithm)


IN_PROCESS = {"range": "binary_search", "overlap": "interval_tree", "where": "block_nested_loop"}


@pytest.mark.parametrize("kind", SPECS)
def test_inputs_of_two_engines(spark, kind):
    frame = to_spark(spark, LEFT)
    with pytest.raises(jn.PlanError, match=r"The right table is a pyarrow.Table in this process, but the left table"):
        jn.plan(frame, RIGHT, SPECS[kind])
    with pytest.raises(jn.PlanError, match=r"but spark= is set"):
        jn.plan(LEFT, RIGHT, SPECS[kind], spark=spark)
    with pytest.raises(jn.SpecError, match=r"The right table is a int, which is not a table"):
        jn.plan(LEFT, 5, SPECS[kind])
    stream = spark.readStream.format("rate").load()
    with pytest.raises(jn.PlanError, match=r"The right table is a streaming DataFrame.*foreachBatch"):
        jn.plan(frame, stream, SPECS[kind])


BACKWARD = [
    ("left", LEFT.set_column(1, "until", pa.array([5, 4])), RIGHT, "row 1 starts after its end: ts=5 and until=4"),
    ("right", LEFT, RIGHT.set_column(1, "end", pa.array([0, 7])), "row 0 starts after its end: ts=1 and end=0"),
]


@pytest.mark.parametrize(("side", "left", "right", "said"), BACKWARD)
def test_an_interval_that_starts_after_its_end(side, left, right, said):
    """Spark's answer is one among its plans. Here it comes before any output."""
    with pytest.raises(
        jn.DataError, match=rf"The {side} interval in {said}\. Swap the two columns of {side}_interval="
    ):
        next(iter(jn.plan(left, right, SPECS["overlap"]).batches()))


BEYOND_PYTHON = [
    (
        pa.array([2**31 - 1, -(2**31)], pa.int32()).view(pa.date32()),
        "<value out of range: 2147483647>",
        "<value out of",
    ),
    (pa.array([2_932_897, 2_932_896], pa.int32()).view(pa.date32()), "10000-01-01", "9999-12-31"),
    (pa.array([2**63 - 1, -(2**63)], pa.timestamp("s")), "<value out of range: 9223372036854775807>", "<value out of"),
    (pa.array([1, -(2**63)], pa.timestamp("ns")), "1970-01-01 00:00:00.000000001", "1677-09-21 00:12:43.145224192"),
    (pa.array([1, 0], pa.timestamp("ms", "No/Where")), "1970-01-01 00:00:00.001Z", "1970-01-01 00:00:00.000Z"),
    (pa.array([1.5, 1.0], pa.float16()), "1.5", "1"),
    (pa.array([1.7e308, -1.7e308]), "1.7e+308", "-1.7e+308"),
    (pa.array([2**64 - 1, 0], pa.uint64()), "18446744073709551615", "0"),
]


@pytest.mark.parametrize(("ends", "start", "end"), BEYOND_PYTHON, ids=[str(each[0].type) for each in BEYOND_PYTHON])
@pytest.mark.parametrize("side", ["left", "right"])
def test_ends_are_shown_whatever_they_are(side, ends, start, end):
    backward = pa.table({"s": ends.slice(0, 1), "e": ends.slice(1, 1)})
    tables = [backward.slice(0, 0), backward] if side == "right" else [backward, backward.slice(0, 0)]
    with pytest.raises(jn.DataError) as raised:
        jn.join_overlap(*tables, left_interval=("s", "e"), right_interval=("s", "e"))
    assert f"row 0 starts after its end: s={start} and e={end}" in str(raised.value)


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
def test_sides_without_rows_and_keys_that_are_all_null(kind, how):
    spec = type(SPECS[kind]).from_dict(SPECS[kind].to_dict() | {"how": how})
    empty = LEFT.slice(0, 0), RIGHT.slice(0, 0)
    no_keys = LEFT.set_column(2, "k", pa.array([None, None], pa.string()))
    for left, right in ((empty[0], RIGHT), (LEFT, empty[1]), empty, (no_keys, RIGHT)):
        answer = jn.plan(left, right, spec).execute()
        assert difference(answer, defined_rows(spec, left, right), ordered=True) is None
        kept = {"left": left.num_rows, "anti": left.num_rows, "right": right.num_rows}
        assert answer.num_rows == kept.get(how, left.num_rows + right.num_rows if how == "full" else 0)


# Files, read in-process or by Spark's tasks.


@pytest.fixture
def folder(tmp_path) -> Path:
    """Write both sides to files, the right one in a folder of its own."""
    pq.write_table(LEFT, tmp_path / "left.parquet")
    (tmp_path / "right").mkdir()
    pq.write_table(RIGHT, tmp_path / "right" / "a.parquet")
    return tmp_path


def cut_off(right: Path) -> None:
    content = (right / "a.parquet").read_bytes()
    (right / "a.parquet").write_bytes(content[: len(content) // 2])


def give_a_sibling(right: Path) -> None:
    pq.write_table(RIGHT.drop_columns(["end"]), right / "b.parquet")


def empty_the_folder(right: Path) -> None:
    (right / "a.parquet").unlink()


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (cut_off, r"a\.parquet.* may be truncated or damaged"),
        (give_a_sibling, r"column 'end' is missing in '\S*b\.parquet'"),
        (empty_the_folder, r"is a folder without Parquet files"),
    ],
)
def test_files_that_are_no_table(folder, spark_or_none, kind, damage, said):
    damage(folder / "right")
    with pytest.raises(jn.DataError, match=said):
        jn.plan(folder / "left.parquet", folder / "right", SPECS[kind], spark=spark_or_none)


@pytest.mark.parametrize("kind", SPECS)
def test_a_file_that_is_damaged_inside(folder, kind):
    path = folder / "right" / "a.parquet"
    pq.write_table(RIGHT, path, compression="zstd", use_dictionary=False)
    content = bytearray(path.read_bytes())
    start = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    with pytest.raises(jn.DataError, match=r"a\.parquet"):
        jn.plan(folder / "left.parquet", folder / "right", SPECS[kind]).execute()


@pytest.mark.parametrize("kind", SPECS)
def test_an_output_folder_that_exists(folder, kind):
    output = folder / "out"
    output.mkdir()
    (output / "mine.txt").write_text("keep me")
    before = sorted(folder.rglob("*"))
    options = {
        "range": ["--on", "ts", "--lower", "0"],
        "overlap": ["--left-interval", "ts", "until", "--right-interval", "ts", "end"],
        "where": ["l.ts = r.ts"],
    }
    paths = [str(folder / "left.parquet"), str(folder / "right")]
    result = CliRunner().invoke(app, ["join", kind, *paths, *options[kind], "-o", str(output)])
    assert result.exit_code == 2
    assert "out exists" in result.output.replace("\n", " ")
    assert sorted(folder.rglob("*")) == before
    assert (output / "mine.txt").read_text() == "keep me"
