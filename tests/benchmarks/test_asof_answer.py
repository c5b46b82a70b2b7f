from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from juncture_benchmarks.asof import answer
from juncture_benchmarks.asof.answer import expected_answer, found_answer
from juncture_benchmarks.datasets import AsofTables, write_asof


@pytest.fixture(params=["zipf", "single", "none"])
def tables(request, tmp_path) -> AsofTables:
    """Few keys, and times in whole minutes: many right rows are tied."""
    tables = write_asof(tmp_path / "data", left_rows=3_000, right_rows=40_000, entities=3, keys=request.param)
    for path in tables.folder.rglob("*.parquet"):
        table = pq.read_table(path)
        minutes = table["ts"].to_numpy() // 60_000 * 60_000
        pq.write_table(table.set_column(0, "ts", pa.array(minutes)), path, store_schema=False)
    return tables


def joined(tables: AsofTables, *, greatest: bool = True) -> pa.Table:
    """Join by the plainest means there are: a list of right rows for each key, and a look at each."""
    rights: dict[str | None, list[tuple[int, float]]] = {}
    for row in pq.read_table(tables.right).to_pylist():
        rights.setdefault(row.get("entity"), []).append((row["ts"], row["val"]))
    by_key = {}
    for key, rows in rights.items():
        rows.sort(key=lambda row: (row[0], row[1] if greatest else -row[1]))
        by_key[key] = rows, np.array([time for time, _ in rows])
    result = []
    for row in pq.read_table(tables.left).to_pylist():
        rows, times = by_key.get(row.get("entity"), ([], np.array([])))
        last = np.flatnonzero(times <= row["ts"])
        time, value = rows[last[-1]] if len(last) else (None, None)
        result.append({**row, "ts_right": time, "val_right": value})
    return pa.Table.from_pylist(result)


def test_the_expected_answer_is_that_of_a_join_by_hand(tables):
    expected, ties = expected_answer(tables)
    assert expected == found_answer(joined(tables), tables.by, ties)
    assert expected.rows == 3_000
    assert 2_900 < expected.matched <= 3_000


def test_it_is_the_same_in_several_passes(tables, tmp_path, monkeypatch):
    whole, _ = expected_answer(tables)
    (tables.folder / "answer.json").unlink()
    monkeypatch.setattr(answer, "_PASS_ROWS", 9_000)
    parts, ties = expected_answer(tables)
    assert parts == whole
    assert parts == found_answer(joined(tables), tables.by, ties)


def test_it_is_kept_beside_the_tables(tables, monkeypatch):
    first, ties = expected_answer(tables)
    monkeypatch.setattr(answer, "_distinct", None)
    assert expected_answer(tables) == (first, ties)


def test_ties_may_be_broken_either_way_by_those_who_promise_nothing(tables):
    expected, ties = expected_answer(tables)
    assert len(np.load(ties)) > 100
    least = found_answer(joined(tables, greatest=False), tables.by, ties)
    assert expected.difference(least, ties_decided=False) is None
    assert expected.difference(least, ties_decided=True).startswith("values: expected")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "mistake", ["row lost", "row twice", "earlier match", "other value", "match lost", "left value"]
)
def test_any_mistake_in_one_row_is_seen(tables, mistake):
    expected, ties = expected_answer(tables)
    rows = joined(tables).to_pylist()
    tied = set(np.load(ties).tolist())
    victim = next(
        row
        for row in rows
        if row["ts_right"] is not None and (int(row.get("entity", "e0")[1:]) << 45) + row["ts_right"] not in tied
    )
    match mistake:
        case "row lost":
            rows.remove(victim)
        case "row twice":
            rows.append(victim)
        case "earlier match":
            victim["ts_right"] -= 1
        case "other value":
            victim["val_right"] += 1e-9
        case "match lost":
            victim["ts_right"] = victim["val_right"] = None
        case "left value":
            victim["val"] += 1e-9
    found = found_answer(pa.Table.from_pylist(rows), tables.by, ties)
    assert expected.difference(found, ties_decided=False) is not None


def test_the_order_of_rows_and_the_kind_of_strings_do_not_matter(tables):
    expected, ties = expected_answer(tables)
    table = joined(tables)
    table = table.take(np.random.default_rng(0).permutation(table.num_rows))
    if tables.by:
        codes = table["entity"].combine_chunks().dictionary_encode()
        for kind in (pa.large_string(), pa.string_view()):
            other = table.set_column(1, "entity", table["entity"].cast(kind))
            assert found_answer(other, tables.by, ties) == expected
        table = table.set_column(1, "entity", codes)
    assert found_answer(table, tables.by, ties) == expected


def test_an_empty_right_table_matches_nothing(tmp_path):
    tables = write_asof(tmp_path / "data", left_rows=10, right_rows=0)
    expected, ties = expected_answer(tables)
    assert (expected.rows, expected.matched) == (10, 0)
    assert expected == found_answer(joined(tables).cast(SCHEMA), tables.by, ties)
    assert set(asdict(expected)) == {"rows", "matched", "times", "untied_values", "values"}


SCHEMA = pa.schema(
    {"ts": pa.int64(), "entity": pa.string(), "val": pa.float64(), "ts_right": pa.int64(), "val_right": pa.float64()}
)
