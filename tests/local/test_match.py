"""Row numbers of matches: under every algorithm, and from files of which only some row groups are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import PlanError
from juncture.runtime.sources import TableSource
from support.cases import Case, read_cases
from support.engines import LOCAL, LOCAL_EQUI, LOCAL_NEAR, execute
from support.kinds import DEFINITIONS, SPECS

HOWS = ("inner", "left", "right", "full", "semi", "anti")
CASES = [
    (case, algorithm)
    for kind in SPECS
    for case in read_cases(kind)
    for algorithm in (LOCAL if kind == "asof" else LOCAL_NEAR[kind])
    if case.resolved and case.error is None and not any(each.window for each in case.resolved.aggregates)
]


@pytest.mark.parametrize(("case", "algorithm"), CASES, ids=str)
def test_cases(case: Case, algorithm: str):
    assert case.resolved is not None
    defined = DEFINITIONS[type(case.spec)](case.resolved.row_pairs(), case.left, case.right)
    if case.resolved.aggregates:
        algorithm = "auto"
    pairs = jn.plan(case.left, case.right, case.spec, algorithm=algorithm).match()
    assert [field.name for field in pairs.schema] == ["left_row", "right_row"]
    assert pairs.schema.types == [pa.int64(), pa.int64()]
    assert pairs["left_row"].to_pylist() == defined[0].to_pylist()
    rights = defined[1].to_pylist() if defined.num_columns > 1 else [None] * len(pairs)
    assert pairs["right_row"].to_pylist() == rights


def random_tables(rows: int, seed: int) -> tuple[pa.Table, pa.Table]:
    random = np.random.default_rng(seed)
    return tuple(  # type: ignore[return-value]
        pa.table(
            {
                "k": pa.array(random.integers(0, 8, count), mask=random.random(count) < 0.05),
                "x": random.permutation(count) if seed % 2 else random.integers(0, rows, count),
                "end": random.integers(0, 9, count) + 2 * rows,
                "text": [f"row {row}" for row in range(count)],
            }
        )
        for count in (rows, 2 * rows)
    )


SPECS_OF_ALL_KINDS: dict[str, Any] = {
    "asof": jn.Asof(on="x", by="k", tolerance=40, matches=2),
    "nearest": jn.Asof(on="x", direction="nearest"),
    "equi": jn.Equi(on=["k", "x"]),
    "condition": jn.Equi(on="x", where="l.k > r.k"),
    "range": jn.Range(on="x", by="k", lower=-3, upper=3),
    "overlap": jn.Overlap(by="k", left_interval=("x", "end"), right_interval=("x", "end")),
    "where": jn.Where("l.k = r.k AND l.x <= r.x AND l.x + 5 >= r.x"),
}
ALGORITHMS = [
    (name, algorithm)
    for name, spec in SPECS_OF_ALL_KINDS.items()
    for algorithm in (
        LOCAL
        if spec.kind == "asof"
        else LOCAL_EQUI
        if spec.kind == "equi"
        else (*LOCAL_NEAR[spec.kind], "external_merge")
    )
    if algorithm not in ("auto", "nested_loop", "block_nested_loop")
]


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(("name", "algorithm"), ALGORITHMS)
@pytest.mark.parametrize("memory_bytes", [1 << 30, 10_000])
def test_rows_have_their_numbers_beside_them(name: str, algorithm: str, how: str, memory_bytes: int):
    left, right = random_tables(120, len(name))
    whole = SPECS_OF_ALL_KINDS[name]
    spec = type(whole).from_dict(whole.to_dict() | {"how": how})
    join = spec.resolve(left.schema, right.schema)
    numbered = join.row_pairs()
    for each in (numbered, replace(join, numbered=numbered.numbered)):
        rows = pa.Table.from_batches(
            execute(each, TableSource(left), TableSource(right), algorithm, memory_bytes=memory_bytes, threads=1),
            each.output_schema,
        )
        assert rows.equals(DEFINITIONS[type(spec)](each, left, right).cast(rows.schema))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", ["asof", "equi", "range"])
@pytest.mark.parametrize("swap", [False, True])
def test_files_of_which_some_row_groups_are_read(tmp_path, kind: str, how: str, swap: bool):
    few, many = pa.table({"x": [41, 43, 75, 43], "a": range(4)}), pa.table({"x": range(100), "b": range(100)})
    pq.write_table(few, tmp_path / "few.parquet", row_group_size=2)
    pq.write_table(many, tmp_path / "many.parquet", row_group_size=10)
    left, right = (few, many) if not swap else (many, few)
    arguments: dict[str, Any] = {"on": "x", "how": how} | ({"lower": -1, "upper": 1} if kind == "range" else {})
    spec = SPECS[kind](**arguments)
    paths = [
        tmp_path / name for name in (("few.parquet", "many.parquet") if not swap else ("many.parquet", "few.parquet"))
    ]
    algorithms = LOCAL if kind == "asof" else LOCAL_NEAR[kind]
    for algorithm in algorithms:
        pairs = jn.plan(*paths, spec, algorithm=algorithm).match()
        assert pairs.equals(jn.plan(left, right, spec, algorithm=algorithms[0]).match())


def test_any_order():
    left, right = random_tables(500, 1)
    for spec in (jn.Equi(on="x", how="full"), jn.Range(on="x", lower=-1, upper=1, how="full")):
        plan = jn.plan(left, right, spec, maintain_order=None)
        order = [("left_row", "ascending"), ("right_row", "ascending")]
        assert plan.match().sort_by(order).equals(jn.plan(left, right, spec).match().sort_by(order))


def test_tables_of_other_libraries_and_without_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"ts": [2, 1]})
    assert jn.plan(frame, frame, jn.Asof(on="ts")).match().to_pydict() == {"left_row": [0, 1], "right_row": [0, 1]}
    empty = pa.table({"a": [1, 2]}).select([])
    pairs = jn.plan(empty, empty, jn.Where("1 = 1", allow_cross=True)).match()
    assert pairs.to_pydict() == {"left_row": [0, 0, 1, 1], "right_row": [0, 1, 0, 1]}


def test_windows_and_streams_are_refused():
    table = pa.table({"x": [1, 2]})
    windows = jn.Range(on="x", windows={"a": (-1, 0), "b": (0, 1)}, agg={"x": "count"})
    with pytest.raises(PlanError, match="one set of matches"):
        jn.plan(table, table, windows).match()
    plan = jn.plan(table.to_reader(), table, jn.Asof(on="x"))
    assert plan.match().num_rows == 2
    with pytest.raises(PlanError, match="consumed"):
        plan.match()
