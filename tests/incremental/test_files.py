"""Folders of change batches as a source, and folders of Parquet files as a sink."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import DataError, SchemaError, SpecError, StateError
from juncture.incremental.sinks.files import FilesSink

SCHEMAS = {
    "left": pa.schema({"id": pa.int32(), "name": pa.string()}),
    "right": pa.schema({"id": pa.int32(), "price": pa.decimal128(10, 2), "day": pa.date32()}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in SCHEMAS:
        (tmp_path / "in" / name).mkdir(parents=True)
    return tmp_path


def joined(folder: Path) -> jn.ChangeJoin:
    return jn.changes(*SCHEMAS.values(), jn.Equi(on="id"), state=folder / "state")


def run(folder: Path, sink: object = None, name: str = "out") -> list[object]:
    said = []
    with joined(folder) as join:
        sink = sink or jn.into_files(folder / name)
        with jn.follow(join, jn.change_files(folder / "in", SCHEMAS), sink, on_epoch=said.append) as follower:
            follower.run(timeout_s=0.1)
            rows = sorted(join.result().to_pylist(), key=str)
    given = [row for path in sorted((folder / name).glob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    weights: dict[str, int] = {}
    for row in given:
        weight = row.pop("_weight")
        weights[str(row)] = weights.get(str(row), 0) + weight
    if (folder / name).exists():
        assert sorted(row for row, weight in weights.items() for _ in range(weight)) == [str(row) for row in rows]
    return said


def into(folder: Path) -> FilesSink:
    return jn.into_files(folder / "out")


def lines(path: Path, *rows: dict[str, object]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_files_are_taken_once_as_they_are_added(folder):
    left, right = folder / "in" / "left", folder / "in" / "right"
    lines(left / "001.jsonl", {"id": 1, "name": "Adam"}, {"id": 2})
    lines(right / "001.jsonl", {"id": 1, "price": "1.25", "day": "2026-01-02", "_weight": 2})
    assert [each.input_rows for each in run(folder)] == [0, 3]
    assert run(folder) == []
    gone = {"id": 1, "price": Decimal("1.25"), "day": date(2026, 1, 2), "_weight": -1}
    schema = pa.schema([*SCHEMAS["right"], ("_weight", pa.int64())])
    pq.write_table(pa.Table.from_pylist([gone], schema), right / "002.parquet")
    before, after = {"id": 1, "name": "Adam"}, {"id": 1, "name": "Eve"}
    lines(left / "003.jsonl", {"op": "u", "before": before, "after": after}, {"op": "c", "after": {"id": 3}})
    lines(left / "_004.jsonl", {"id": 9, "name": "not yet"})
    lines(right / "004.jsonl", {"id": 3, "price": "2", "day": None, "_change_type": "insert"})
    (right / "005.jsonl").write_text("")
    assert [each.input_rows for each in run(folder)] == [4]
    given = pq.read_table(folder / "out" / "000000000003.parquet").to_pylist()
    assert sorted((row["name"] or "", row["_weight"]) for row in given) == [("", 1), ("Adam", -2), ("Eve", 1)]


def test_a_file_that_cannot_be_read(folder):
    (folder / "in" / "left" / "1.parquet").write_bytes(b"no")
    with pytest.raises(DataError, match=r"1\.parquet cannot be read as changes of 'left'"):
        run(folder)
    (folder / "in" / "left" / "1.parquet").unlink()
    lines(folder / "in" / "left" / "1.jsonl", {"id": "one", "name": "Adam"})
    with pytest.raises(DataError, match=r"1\.jsonl cannot be read as changes of 'left'"):
        run(folder)
    lines(folder / "in" / "left" / "1.jsonl", {"id": 1, "nam": "Adam"})
    with pytest.raises(SchemaError, match="'nam'"):
        run(folder)
    lines(folder / "in" / "left" / "1.jsonl", {"id": 1, "name": "Adam"})
    assert len(run(folder)) == 1


def test_a_file_that_cannot_be_read_is_not_skipped(folder):
    lines(folder / "in" / "left" / "1.jsonl", {"id": 1, "name": "Adam"})
    (folder / "in" / "right" / "2.parquet").write_bytes(b"no")
    with joined(folder) as join, jn.follow(join, jn.change_files(folder / "in", SCHEMAS), into(folder)) as follower:
        for _ in range(2):
            with pytest.raises(DataError, match=r"2\.parquet cannot be read"):
                follower.step()
        pq.write_table(SCHEMAS["right"].empty_table(), folder / "in" / "right" / "2.parquet")
        assert follower.step().input_rows == 1
        assert join.table("left").num_rows == 1


def test_a_folder_that_is_missing(folder):
    (folder / "in" / "right").rmdir()
    with pytest.raises(DataError, match=r"Folder .*right.* does not exist. Create it first"):
        run(folder)
    with pytest.raises(SpecError, match=r"Expected a pyarrow\.Schema"):
        jn.change_files(folder, {"left": {"id": "int"}})


def test_an_epoch_that_has_not_come_to_the_files(folder):
    lines(folder / "in" / "left" / "1.jsonl", {"id": 1, "name": "Adam"})
    lines(folder / "in" / "right" / "1.jsonl", {"id": 1})
    run(folder)
    # As if the process had died before the file got its name.
    (folder / "out" / "000000000002.parquet").rename(folder / "out" / "_000000000002.parquet")
    run(folder)
    assert [path.name for path in sorted((folder / "out").iterdir())] == [f"{n:012}.parquet" for n in (1, 2)]
    for path in (folder / "out").iterdir():
        path.unlink()
    with pytest.raises(StateError, match="The sink is at epoch 0, but the state is at epoch 2"):
        run(folder)


def test_a_file_that_is_missing_in_between(folder):
    for number in range(1, 4):
        lines(folder / "in" / "left" / f"{number}.jsonl", {"id": number, "name": "Adam"})
        run(folder)
    paths = sorted((folder / "out").iterdir())
    assert [int(path.stem) for path in paths] == [1, 2, 3, 4]
    content = paths[2].read_bytes()
    paths[2].unlink()
    with pytest.raises(StateError, match=r"has no file of epoch 3, but one of epoch 4\. Restore the file"):
        run(folder)
    paths[2].write_bytes(content)
    # The first files may go once they have been read.
    paths[0].unlink()
    lines(folder / "in" / "left" / "4.jsonl", {"id": 4, "name": "Adam"})
    with joined(folder) as join, jn.follow(join, jn.change_files(folder / "in", SCHEMAS), into(folder)) as follower:
        assert follower.step().epoch == 5


def test_files_that_are_not_of_epochs(folder):
    run(folder)
    (folder / "out" / "notes.parquet").write_text("mine")
    with pytest.raises(StateError, match=r"notes\.parquet is not the file of an epoch"):
        run(folder)
    (folder / "out" / "notes.parquet").unlink()
    (folder / "out" / f"{1:012}.parquet").write_text("damaged")
    with pytest.raises(StateError, match=r"1\.parquet cannot be read.*Remove it, and its epoch is written again"):
        run(folder)
    (folder / "out" / f"{1:012}.parquet").unlink()
    run(folder)


def test_an_epoch_that_does_not_follow_the_last_one(folder):
    sink = into(folder)
    schema = pa.schema({"id": pa.int64(), "_weight": pa.int64()})
    assert sink.open(schema, "state") == 0
    sink.write(1, [])
    for epoch in (1, 3):
        with pytest.raises(StateError, match=f"is at epoch 1, so epoch {epoch} cannot be written next"):
            sink.write(epoch, [])
    sink.write(2, [])
    assert into(folder).open(schema, "state") == 2


def test_files_of_another_state(folder, tmp_path):
    run(folder)
    (folder / "state").rename(folder / "other")
    with pytest.raises(StateError, match="belong to another state"):
        run(folder)


def test_a_state_that_was_filled_by_other_means(folder):
    with joined(folder) as join:
        join.apply(left=pa.table({"id": [1], "name": ["Adam"]}, SCHEMAS["left"]), offset=7)
    with pytest.raises(StateError, match=r"offset 7 was not written by jn\.follow"):
        run(folder)


def test_the_changes_of_a_replaced_query_are_written_in_the_next_step(folder):
    sql = "SELECT id, count(*) AS n FROM people GROUP BY id"
    schema = SCHEMAS["left"]
    (folder / "in" / "people").mkdir()
    lines(folder / "in" / "people" / "1.jsonl", {"id": 1, "name": "a"}, {"id": 1, "name": "b"}, {"id": 2, "name": "c"})
    with jn.view(folder / "state", sql, sources={"people": schema}) as view:
        source = jn.change_files(folder / "in", {"people": schema})
        with jn.follow(view, source, into(folder)) as follower:
            follower.step(0)
            view.replace(f"{sql} HAVING count(*) > 1")
            assert follower.step(0) is None
            view.replace(f"{sql} HAVING count(*) < 2")
            lines(folder / "in" / "people" / "2.jsonl", {"id": 3, "name": "d"})
            follower.step(0)
    epochs = [pq.read_table(path).to_pylist() for path in sorted((folder / "out").glob("*.parquet"))]
    assert [{row["id"]: row["_weight"] for row in rows} for rows in epochs] == [
        {},
        {1: 1, 2: 1},
        {2: -1},
        {1: -1, 2: 1},
        {3: 1},
    ]
