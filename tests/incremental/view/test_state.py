"""A view in a folder: it is there whole, or an error says why it cannot be used, and nothing is lost."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import DataError, PlanError, SpecError, StateError
from juncture.incremental.changes.source import Source
from juncture.incremental.state import store
from juncture.incremental.state.policy import MemoryPolicy
from juncture.incremental.view import View, ViewSetup, store_in
from support.state import ON_DISK, view_in, write_version
from support.viewing import forgetful

SALES = pa.schema({"book": pa.string(), "price": pa.decimal128(7, 2)})
SQL = "SELECT book, sum(price) AS total FROM sales GROUP BY book"

POLICY = MemoryPolicy.of(1 << 26)


def opened(folder, sql=SQL, sources=None, **arguments):
    return jn.view(folder, sql, sources=sources or {"sales": SALES}, **arguments)


def sold(*rows, weight=1):
    table = pa.table({"book": [book for book, _ in rows], "price": pa.array([str(price) for _, price in rows])})
    table = table.cast(SALES)
    return table.append_column("_weight", pa.array([weight] * len(rows)))


def totals(view):
    return {row["book"]: float(row["total"]) for row in view.result().to_pylist()}


def filled(folder, epochs=3, policy=POLICY):
    """Leave a view of some epochs in a folder."""
    with view_in(folder, SQL, sources={"sales": SALES}, policy=policy) as view:
        for epoch in range(epochs):
            view.apply(sales=sold(("Emma", epoch)), offset=epoch)


def test_a_folder_goes_on_where_it_was_left(tmp_path):
    filled(tmp_path / "state")
    with opened(tmp_path / "state", f"{SQL.replace(' AS', '  AS')}\n") as view:
        assert (view.epoch, view.offset, totals(view)) == (3, 2, {"Emma": 3.0})
        assert [row["_weight"] for batch in view.last() for row in batch.to_pylist()] == [-1, 1]
        with pytest.raises(PlanError, match="needs a new view, but this one has applied 3 epochs"):
            view.populate()
    with pytest.raises(PlanError, match="closed"):
        view.apply()


def test_a_folder_of_another_view(tmp_path):
    filled(tmp_path / "state")
    with pytest.raises(StateError, match=r"another view: its query is\nSELECT book[^\n]*\n[^\n]*\nSELECT price"):
        opened(tmp_path / "state", "SELECT price FROM sales")
    with pytest.raises(StateError, match="its source sales is"):
        opened(tmp_path / "state", sources={"sales": SALES.append(pa.field("at", pa.date32()))})
    with opened(tmp_path / "state"), pytest.raises(StateError, match="open in another process"):
        opened(tmp_path / "state")


def test_a_folder_of_other_things(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StateError, match="has other files"):
        opened(tmp_path)
    with pytest.raises(StateError, match="is not a folder"):
        opened(tmp_path / "notes.txt")
    write_version(tmp_path / "state", b"view", 1)
    with pytest.raises(StateError, match="of version 3 or earlier, but this Juncture reads version 6"):
        opened(tmp_path / "state")


@pytest.mark.parametrize("pattern", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_damaged_folder(tmp_path, pattern):
    filled(tmp_path / "state")
    damaged = next((tmp_path / "state").glob(pattern))
    content = damaged.read_bytes()
    damaged.write_bytes(bytes(255 - byte for byte in content))
    with pytest.raises(StateError, match=r"damaged: .*Nothing in it was changed"):
        opened(tmp_path / "state")
    damaged.write_bytes(content)
    with opened(tmp_path / "state") as view:
        assert view.epoch == 3


def test_an_epoch_that_was_written_half(tmp_path):
    with opened(tmp_path / "state") as view:
        states = [totals(view)]
        for epoch in range(5):
            view.apply(sales=sold(("Emma", 1), (f"b{epoch}", 2)))
            states.append(totals(view))
        copy = shutil.copytree(tmp_path / "state", tmp_path / "copy")
    log = max(copy.glob("*.log"), key=lambda path: path.stat().st_size)
    content, seen = log.read_bytes(), set()
    for kept in range(0, len(content), len(content) // 12):
        again = shutil.copytree(copy, tmp_path / f"copy{kept}")
        (again / log.name).write_bytes(content[:kept])
        # The process died before it recorded an epoch.
        (again / "epoch").write_text("0")
        with opened(again) as view:
            seen.add(view.epoch)
            assert totals(view) == states[view.epoch]
    assert len(seen) >= 4


def test_a_checkpoint_takes_the_place_of_changes(tmp_path):
    filled(tmp_path / "state", epochs=12, policy=replace(POLICY, log_rows=3, loose_rows=2))
    with opened(tmp_path / "state") as view:
        assert (view.epoch, totals(view)) == (12, {"Emma": 66.0})
        assert view.table("sales").num_rows == 12
        assert sum(batch.num_rows for batch in view.last()) == 2


def test_an_epoch_that_cannot_be_taken(tmp_path, monkeypatch):
    with opened(tmp_path / "state") as view:
        view.apply(sales=sold(("Emma", 1)))

        def full(*_):
            raise StateError("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(view._runtime.store, "commit", full)
            with pytest.raises(StateError, match="disk is full"):
                view.apply(sales=sold(("Emma", 5)))
        assert (view.epoch, totals(view)) == (1, {"Emma": 1.0})
        with pytest.raises(
            DataError, match=r"source 'sales' delete a row that does not exist \(1 in all\).*unmatched_deletes='count'"
        ):
            view.apply(sales=sold(("Emma", 5), weight=-1))
        view.apply(sales=sold(("Emma", 2)))
        assert totals(view) == {"Emma": 3.0}


class WithoutCheckpoints(store.Store):
    """A store that cannot write a checkpoint."""

    def checkpoint(self, *_, **__):
        raise StateError("the disk is full")


def test_an_epoch_whose_checkpoint_cannot_be_written_is_taken_once(tmp_path, caplog):
    setup = ViewSetup(SQL, {"sales": Source(SALES)})
    plain = store_in(tmp_path / "state", setup, replace(POLICY, log_rows=0))
    with View(setup, partial(WithoutCheckpoints, *plain.args)) as view:
        for epoch in range(1, 4):
            view.apply(sales=sold(("Emma", 1)))
            assert (view.epoch, totals(view)) == (epoch, {"Emma": epoch})
    assert "No checkpoint was made: the disk is full" in caplog.text
    with opened(tmp_path / "state") as view:
        assert (view.epoch, totals(view)) == (3, {"Emma": 3.0})


def test_deletes_that_are_counted(tmp_path):
    with opened(tmp_path / "state", unmatched_deletes="count") as view:
        view.apply(sales=sold(("Emma", 1)))
        view.apply(sales=sold(("Emma", 1), ("Emma", 1), ("Persuasion", 1), weight=-1))
        assert (totals(view), view.unmatched_deletes) == ({}, {"sales": 2})
    with opened(tmp_path / "state", unmatched_deletes="count") as view:
        assert view.unmatched_deletes == {"sales": 2}


def test_a_value_that_cannot_be_worked_out():
    view = opened(None, "SELECT CAST(book AS INTEGER) AS n, 7 // CAST(book AS INTEGER) AS part FROM sales")
    view.apply(sales=sold(("2", 1)))
    for text, why in (("Emma", "Could not convert string"), ("0", "divide by zero")):
        with pytest.raises(DataError, match=rf"these changes were not applied: .*{why}"):
            view.apply(sales=sold((text, 1)))
    assert view.result().to_pylist() == [{"n": 2, "part": 3}]


def test_a_static_source_that_changes():
    view = opened(None, sources={"sales": jn.Source(SALES, static=True)})
    view.populate(sales=sold(("Emma", 1)))
    with pytest.raises(PlanError, match="declared static"):
        view.apply(sales=sold(("Emma", 1)))


def test_what_is_shared(capsys):
    sql = "SELECT x.book FROM sales x, sales y, sales z WHERE x.book = y.book AND x.book = z.book"
    with opened(None, sql) as view:
        view.apply(sales=sold(("Emma", 1)))
        text = view.explain()
        assert text.count("] arranged by book") == 1
        assert text.count("]: arranged by book") == 2
        assert "join on book = book" in text
        with view.watch():
            view.apply(sales=sold(("Emma", 2)))
    assert "epoch 2" in capsys.readouterr().out


def test_the_expected_work_of_a_change(tmp_path):
    sql = "SELECT book, y.price, count(*) AS n FROM sales x JOIN sales y USING (book) GROUP BY book, y.price"
    on_disk = forgetful(view_in(tmp_path / "state", sql, sources={"sales": SALES}, policy=ON_DISK))
    for each in (opened(None, sql), on_disk):
        with each as view:
            view.apply(sales=sold(*((book, price) for book in ("Emma", "Persuasion") for price in range(30))))
            facts = json.loads(view.explain(format="json"))
            join = next(each for each in facts["operators"] if each["operator"].startswith("join"))
            assert [facts["operators"][each]["operator"] for each in join["inputs"]] == ["arranged by book"] * 2
            assert join["emitted_rows"] == 2 * 30 * 30
            # A row joins the 30 of its book on either side, and changes 30 groups of each.
            assert facts["expected"]["sales"]["answer_rows"] == pytest.approx(120, rel=0.05)
            assert "one changed row of sales: about" in view.explain()
            assert "<td>1,800</td>" in view.explain(format="html")
            with pytest.raises(SpecError, match="format='yaml'"):
                view.explain(format="yaml")


def test_groups_that_are_shared():
    sql = """
        WITH totals AS (SELECT book, price, count(*) AS n FROM sales GROUP BY book, price)
        SELECT one.book, one.n + two.n AS n FROM totals one, totals two
        WHERE one.book = two.book AND one.price = 1 AND two.price = 2"""
    with opened(None, sql) as view:
        view.apply(sales=sold(("Emma", 1), ("Emma", 2), ("Emma", 3), ("Persuasion", 1)))
        lines = [line for line in view.explain().splitlines() if "] group by" in line]
        assert len(lines) == 1
        # Two of Emma and one of Persuasion: what nobody asks for is no group.
        assert lines[0].split("price: count(*)")[1].split()[0] == "3"
        assert view.result().to_pylist() == [{"book": "Emma", "n": 2}]


def test_epochs_that_fail_only_together_are_applied_one_by_one(tmp_path):
    """A value of one epoch meets a row that an earlier epoch deleted, if both are applied at once."""
    schema = pa.schema({"k": pa.int64(), "text": pa.string()})
    sql = "SELECT a.k, CAST(a.text || b.text AS INTEGER) AS n FROM a JOIN b ON a.k = b.k"

    def row(text, weight=1, k=1):
        return pa.table({"k": [k], "text": [text], "_weight": [weight]})

    with opened(tmp_path / "state", sql, {"a": schema, "b": schema}) as view:
        view.populate(a=row("1", k=4), b=row("1"))
        view.apply(a=row("4", k=2), b=row("2", k=2))
        view.apply(a=row("1", -1, k=4), b=row("1", -1))
        view.apply(a=row("no number"), b=row("no number", k=4))
        view.apply(a=row("5", k=3), b=row("6", k=3))
        expected = view.result().sort_by("k")
    with opened(tmp_path / "state", sql, {"a": schema, "b": schema}) as view:
        assert view.epoch == 5
        assert view.result().sort_by("k") == expected
        assert expected["n"].to_pylist() == [42, 56]
        view.apply(a=row("no number", -1))
        view.apply(b=row("7"))
        assert view.result().num_rows == 2


def test_a_long_log_is_not_replayed_after_closing(tmp_path):
    rows = [(f"b{number}", number) for number in range(5_000)]
    with opened(tmp_path / "state") as view:
        view.apply(sales=sold(*rows))
        expected = view.result().sort_by("book")
    with opened(tmp_path / "state") as view:
        assert view._runtime.store.logged_rows == 0
        assert view.result().sort_by("book") == expected


def test_tables_on_disk_are_loaded_when_an_epoch_reads_them(tmp_path):
    rows = [(f"b{number}", number) for number in range(20_000)]
    with opened(tmp_path / "state") as view:
        view.populate(sales=sold(*rows))
    with opened(tmp_path / "state") as view:
        on_disk = [len(table.stored) > 0 for table in view._runtime.dataflow.tables.values()]
        assert all(on_disk)
        view.apply(sales=sold(("b7", 1)))
        groups = next(table for name, table in view._runtime.dataflow.tables.items() if name.endswith("groups"))
        assert not groups.stored
        assert groups.arrangement.rows == 20_000
        view.apply(sales=sold(("b7", 7), ("b8", 8), weight=-1))
        assert totals(view)["b7"] == 1.0
        assert "b8" not in totals(view)


def test_groups_of_no_rows_are_opened_again(tmp_path):
    sql = "SELECT count(*) AS n, max(price) AS most FROM sales"
    for n in (1, 2):
        with opened(tmp_path / "state", sql) as view:
            if not view.epoch:
                view.populate(sales=SALES.empty_table())
        with opened(tmp_path / "state", sql) as view:
            view.apply(sales=sold(("Emma", 3)))
            assert view.result().to_pylist() == [{"n": n, "most": 3}]


def test_first_rows_are_opened_again_before_an_epoch_of_other_rows(tmp_path):
    schema = pa.schema({"k": pa.int64()})
    sql = "(SELECT k FROM a ORDER BY k LIMIT 2) UNION ALL SELECT k FROM b"
    with opened(tmp_path / "state", sql, {"a": schema, "b": schema}) as view:
        view.populate(a=pa.table({"k": [1, 2, 3]}))
    with opened(tmp_path / "state", sql, {"a": schema, "b": schema}) as view:
        view.apply(b=pa.table({"k": [7]}))
        view.apply(a=pa.table({"k": [1], "_weight": [-1]}))
        assert sorted(view.result()["k"].to_pylist()) == [2, 3, 7]


NUMBERS = pa.schema({"k": pa.int64(), "n": pa.int64()})
PAIRS = {
    "a filter": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE CAST((a.n - b.n) * 2 AS TINYINT) >= 0",
    "an expression": "SELECT a.k, CAST((a.n - b.n) * 2 AS TINYINT) AS n FROM a JOIN b ON a.k = b.k",
    "a sum": "SELECT sum(CAST((a.n - b.n) * 2 AS TINYINT)) AS n FROM a JOIN b ON a.k = b.k",
}


@pytest.mark.parametrize("sql", PAIRS.values(), ids=PAIRS)
def test_rows_that_meet_only_within_an_epoch_do_not_fail_it(sql):
    def rows(*numbers):
        weights = pa.array([-1, 1][-len(numbers) :], pa.int64())
        return pa.table({"k": [1] * len(numbers), "n": numbers, "_weight": weights})

    with jn.view(None, sql, sources={"a": NUMBERS, "b": NUMBERS}) as view:
        view.apply(a=rows(0), b=rows(0))
        view.apply(a=rows(0, 100), b=rows(0, 100))
        before = view.result()
        assert before.num_rows == 1
        with pytest.raises(DataError, match="not applied"):
            view.apply(b=rows(100, 0))
        assert view.result() == before
        view.apply(b=rows(100, 99))
