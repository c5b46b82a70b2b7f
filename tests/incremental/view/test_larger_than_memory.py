"""Views whose rows do not fit in memory: they are looked up on disk, and the answer is DuckDB's after every epoch."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from incremental.view.test_queries import QUERIES
from juncture.errors import DataError, StateError
from juncture.incremental.state.policy import MemoryPolicy
from support.state import ON_DISK, view_in
from support.viewing import SCHEMAS, Forgetful, check, forgetful


class OnDisk(Forgetful):
    """A view of which no row stays in memory after an epoch."""

    def opened(self):
        sources = {name: jn.Source(schema, static=name in self.static) for name, schema in SCHEMAS.items()}
        view = forgetful(view_in(self.folder, self.query, sources=sources, policy=ON_DISK))
        assert not any(table.arrangement.memory for table in view._runtime.dataflow.tables.values())
        return view

    def step(self):
        super().step()
        assert not any(table.arrangement.memory for table in self.view._runtime.dataflow.tables.values())


OFTEN = (
    *("join", "chain of joins", "self join", "left join on more", "full join", "left inequality", "join of joins"),
    *("common table, whole and in part", "group of join", "top", "texts", "union", "join of groups"),
)


@pytest.mark.parametrize(
    "query", [pytest.param(name, marks=[] if name in OFTEN else pytest.mark.nightly) for name in QUERIES]
)
def test_a_query_of_rows_on_disk(query, tmp_path):
    check(OnDisk(QUERIES[query], 2, tmp_path / "state"))


def test_an_asof_join_of_rows_on_disk(tmp_path):
    query = "SELECT a.x, b.y, a.t FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.x >= b.y"
    check(OnDisk(query, 4, tmp_path / "state"))


SALES = pa.schema({"sale": pa.int64(), "customer": pa.int64(), "price": pa.int64()})
CUSTOMERS = pa.schema({"customer": pa.int64(), "region": pa.int64()})
SQL = """
    SELECT region, count(*) AS n, sum(price) AS total
    FROM sales JOIN customers ON sales.customer = customers.customer GROUP BY region"""
MEMORY = 400_000


def sales(numbers, weight=1):
    numbers = np.asarray(numbers)
    table = pa.table({"sale": numbers, "customer": numbers % 997, "price": numbers}, schema=SALES)
    return table.append_column("_weight", pa.array([weight] * len(numbers), pa.int64()))


def customers(count):
    return pa.table({"customer": np.arange(count), "region": np.arange(count) % 7}, schema=CUSTOMERS)


def opened(folder, sql=SQL, policy=None):
    sources = {"sales": SALES, "customers": CUSTOMERS}
    return view_in(folder, sql, sources=sources, policy=policy or MemoryPolicy.of(MEMORY))


def regions(numbers, count):
    """Return what the query is to answer."""
    found = {}
    for number in numbers:
        if number % 997 < count:
            row = found.setdefault(number % 997 % 7, [0, 0])
            row[0] += 1
            row[1] += number
    return {region: tuple(row) for region, row in found.items()}


def answered(view):
    return {row["region"]: (row["n"], row["total"]) for row in view.result().to_pylist()}


def test_many_epochs_in_little_memory(tmp_path):
    chance, there = random.Random(3), list(range(20_000))
    with opened(tmp_path / "state") as view:
        given = sales(there).to_reader(max_chunksize=1_000)
        first = view.populate(sales=given, customers=customers(700))
        assert sum(batch.num_rows for batch in first) == 7
        assert view.epoch == 1
        for epoch in range(10):
            gone = chance.sample(there, 40)
            come = range(30_000 + 700 * epoch, 30_700 + 700 * epoch)
            there = sorted({*there, *come} - set(gone))
            view.apply(sales=pa.concat_tables([sales(come), sales(gone, -1)]))
            assert answered(view) == regions(there, 700)
            # Of 20,000 sales, which take three times as much.
            assert view.nbytes < MEMORY
        view._runtime.tables.finish_merges()
        with pytest.raises(DataError, match="delete a row that does not exist"):
            view.apply(sales=sales([there[0], 90_000], -1))
        view.apply(sales=sales(there[:1], -1))
    with opened(tmp_path / "state") as view:
        sales_line = next(line for line in view.explain().splitlines() if "arranged by customer" in line)
        assert int(sales_line.split()[-6].replace(",", "")) > 15_000
        assert answered(view) == regions(there[1:], 700)
        assert view.table("sales").num_rows == len(there) - 1
        assert view.nbytes < MEMORY


def test_the_least_and_the_greatest_that_there_can_be(tmp_path):
    sql = "SELECT region, min(customer) AS low, max(customer) AS high FROM customers GROUP BY region"
    least, most = -(2**63), 2**63 - 1
    rows = pa.table({"customer": [least, most, least, most, None], "region": [0, 0, 1, 2, 3]}, schema=CUSTOMERS)
    with opened(tmp_path / "state", sql, ON_DISK) as view:
        view.populate(customers=rows)
        found = {tuple(row.values()) for row in view.result().to_pylist()}
        assert found == {(0, least, most), (1, least, least), (2, most, most), (3, None, None)}
        gone = rows.filter(pa.array([True, False, True, False, False]))
        view.apply(customers=gone.append_column("_weight", pa.array([-1, -1])))
        assert {tuple(row.values()) for row in view.result().to_pylist()} == {
            (0, most, most),
            (2, most, most),
            (3, None, None),
        }


def test_the_greatest_of_many(tmp_path):
    with opened(tmp_path / "state", "SELECT customer % 5 AS part, max(sale) AS last FROM sales GROUP BY part") as view:
        view.populate(sales=sales(range(20_000)).to_reader(max_chunksize=1_000))
        assert view.nbytes < MEMORY
        for last in (20_000, 18_000, 11_000):
            assert {row["part"]: row["last"] for row in view.result().to_pylist()} == {
                part: max(number for number in range(last) if number % 997 % 5 == part) for part in range(5)
            }
            view.apply(sales=sales(range({20_000: 18_000, 18_000: 11_000, 11_000: 0}[last], last), -1))
        assert view.result().num_rows == 0


def test_deletes_among_the_first_rows(tmp_path):
    table = pa.concat_tables([sales(range(100), -1), sales(range(9_000))])
    with opened(tmp_path / "state") as view:
        view.populate(sales=table, customers=customers(997))
        assert answered(view) == regions(range(100, 9_000), 997)


def test_first_rows_that_cannot_be_taken(tmp_path):
    with opened(tmp_path / "state") as view:
        with pytest.raises(DataError, match="delete a row that does not exist"):
            view.populate(sales=pa.concat_tables([sales(range(9_000)), sales([9_001], -1)]))
        assert (view.epoch, view.nbytes) == (0, 0) or view.result().num_rows == 0
        view.populate(sales=sales(range(5)), customers=customers(997))
        assert answered(view) == regions(range(5), 997)


def test_first_rows_whose_changes_are_more_than_they(tmp_path):
    """Neither a window, of which each piece changes many results, nor an empty part makes the pieces smaller."""
    rows = sales(np.random.default_rng(5).permutation(4_500))
    query = "SELECT sale, sum(price) OVER (ORDER BY sale) AS total FROM sales"
    with opened(tmp_path / "window", query) as view:
        view.populate(sales=rows)
        totals = view.result().sort_by("sale")["total"].to_pylist()
        assert totals == np.cumsum(np.arange(4_500)).tolist()
        assert sum(getattr(each, "computed_rows", 0) for each in view._graph.operators) < 30 * 4_500
    with opened(tmp_path / "groups", "SELECT sale % 3 AS part, count(*) AS n FROM sales GROUP BY part") as view:
        view.populate(sales=rows)
        assert view.result()["n"].to_pylist() == [1_500] * 3
        assert max(each.emitted_rows for each in view._graph.operators if each.label.startswith("group")) < 500


def test_the_first_rows_of_many(tmp_path):
    """The best rows go, and others are looked for among those on disk."""
    with opened(tmp_path / "state", "SELECT sale, price FROM sales ORDER BY sale LIMIT 5 OFFSET 2") as view:
        view.populate(sales=sales(range(12_000)))
        for first in range(0, 6_000, 1_500):
            view.apply(sales=sales(range(first, first + 1_500), -1))
            assert view.result()["sale"].to_pylist() == list(range(first + 1_502, first + 1_507))


def test_an_epoch_that_is_on_disk_and_half_in_memory(tmp_path, monkeypatch):
    with opened(tmp_path / "state") as view:
        view.populate(sales=sales(range(9_000)), customers=customers(997))
        pages = view._graph.source_rows["sales"].arrangement.pages

        def failing():
            raise StateError("a block is damaged")

        monkeypatch.setattr(pages, "write_back", failing)
        with pytest.raises(StateError, match="block is damaged"):
            view.apply(sales=sales([7], -1))
        with pytest.raises(StateError, match=r"view is incomplete in memory.*Close it and open its folder again"):
            view.apply(sales=sales([8], -1))
    with opened(tmp_path / "state") as view:
        assert view.epoch == 2
        assert answered(view) == regions([number for number in range(9_000) if number != 7], 997)


def test_groups_that_do_not_fit(tmp_path):
    query = """
        SELECT sale, count(*) AS n, sum(price * 0.1::DOUBLE) AS total, max(price) AS most,
            count(DISTINCT price) AS prices
        FROM sales GROUP BY sale"""
    with opened(tmp_path / "state", query) as view:
        view.apply(sales=sales(range(20_000)))
        view.apply(sales=sales(range(5_000, 15_000)))
        view.apply(sales=sales(range(3_000), -1))
        assert view.nbytes < MEMORY
        first = view.result().sort_by("sale")
    with opened(tmp_path / "state", query) as view:
        assert view.result().sort_by("sale") == first
        assert first["sale"].to_pylist() == list(range(3_000, 20_000))
        assert first["n"].to_pylist() == [1 + (5_000 <= sale < 15_000) for sale in range(3_000, 20_000)]
        assert first["most"] == first["sale"]
        assert set(first["prices"].to_pylist()) == {1}
        view.apply(sales=sales(range(20_000, 20_020)))
        assert view.result().num_rows == 17_020
        assert view.nbytes < MEMORY


def test_sums_whose_digits_become_more(tmp_path):
    """The state of groups on disk has fewer digits than later values need."""
    query = "SELECT part, sum(price) AS total, avg(price) AS mean FROM sales GROUP BY part"
    sources = {"sales": pa.schema({"part": pa.int64(), "price": pa.float64()})}

    def rows(exponents, weight=1):
        prices = [(part, (part + 1.1) * 10.0**each) for part in range(20) for each in exponents]
        columns = {"part": [part for part, _ in prices], "price": [price for _, price in prices]}
        return pa.table({**columns, "_weight": [weight] * len(prices)})

    def totals(view):
        return {row["part"]: (row["total"], row["mean"]) for row in view.result().to_pylist()}

    for policy in (ON_DISK, MemoryPolicy.of(1 << 26)):
        folder = tmp_path / f"state {policy.in_memory_bytes}"
        with view_in(folder, query, sources=sources, policy=policy) as view:
            for exponent in (0, 100, -200, 150):
                view.apply(sales=rows([exponent]))
        with view_in(folder, query, sources=sources, policy=policy) as view:
            view.apply(sales=rows([-300]))
            view.apply(sales=rows([100, -200, 150, -300], -1))
            assert totals(view) == {part: (part + 1.1, part + 1.1) for part in range(20)}


def test_first_rows_that_do_not_fit(tmp_path):
    with opened(tmp_path / "state", "SELECT sale FROM sales ORDER BY sale LIMIT 20000") as view:
        view.apply(sales=sales(range(60_000)))
        with pytest.raises(StateError, match=r"memory=.* first rows of ORDER BY take [\d,]+ .*with more memory"):
            view.apply(sales=sales(range(20)))


@pytest.mark.parametrize("is_on_disk", [False, True])
def test_an_update_of_a_row_that_many_rows_match_is_applied_in_parts(tmp_path, is_on_disk):
    count, sql = 530_000, "SELECT sale, price, region FROM sales JOIN customers ON sales.customer = customers.customer"
    folder = tmp_path / "state" if is_on_disk else None

    def column(numbers):
        return pa.array(np.broadcast_to(np.asarray(numbers), count), pa.int64())

    def view():
        memory = {"memory": "64MB"} if is_on_disk else {}
        return jn.view(folder, sql, sources={"sales": SALES, "customers": CUSTOMERS}, **memory)

    def moved(region):
        return pa.table({"customer": [1, 1], "region": [region - 1, region], "_weight": [-1, 1]})

    def changed(batches):
        return pa.concat_tables(map(pa.Table.from_batches, ([each] for each in batches))).sort_by(
            [("_weight", "ascending"), ("sale", "ascending")]
        )

    def expected(region, weight):
        columns = column(np.arange(count)), column(np.arange(count) % 3), column(region), column(weight)
        return pa.table(columns, names=["sale", "price", "region", "_weight"])

    table = pa.table((column(np.arange(count)), column(1), column(np.arange(count) % 3)), schema=SALES)
    with view() as first:
        first.populate(sales=table, customers=pa.table({"customer": [1], "region": [0]}))
        for region in [1] if is_on_disk else [1, 2]:
            changes = changed(first.apply(customers=moved(region)))
            assert changes.select(range(3)) == pa.concat_tables([expected(region - 1, -1), expected(region, 1)]).select(
                range(3)
            )
            assert changed(first.last()) == changes
    if is_on_disk:
        with view() as second:
            assert changed(second.last()) == changes
            assert second.result().sort_by("sale") == expected(1, 1).select(range(3))
            small = second.apply(customers=pa.table({"customer": [2], "region": [0]}))
            assert small == second.last() == []
