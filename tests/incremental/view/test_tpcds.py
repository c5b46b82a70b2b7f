"""TPC-DS query 4 kept up to date: its text unchanged but for the ratio, beside DuckDB after every epoch.

The tables are made here, with the columns that the query reads and keys and dates as the benchmark's generator spreads
them, since that comes as a file for one version of DuckDB. `benchmarks/view.py` runs on its own tables.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import juncture as jn
from juncture.columnar.arrays import array_of

# The ratios are compared with more than half of one another, so that small tables have an answer.
QUERY = Path(__file__).with_name("query4.sql").read_text().replace("END > CASE", "END > 0.6 * CASE")
PRICE = pa.decimal128(7, 2)
CUSTOMERS = 400
SALES = {"store_sales": ("ss", 12_000), "catalog_sales": ("cs_bill", 8_000), "web_sales": ("ws_bill", 5_000)}
FIRST_DAY, DAYS = 2_450_815, 2_191


def prices(values: np.ndarray) -> pa.Array:
    """Return hundredths as money."""
    return array_of(np.stack([values, values >> 63], axis=1), PRICE)


def customers(chance: np.random.Generator) -> pa.Table:
    keys = np.arange(1, CUSTOMERS + 1)
    names = {name: [f"{name} {each}" for each in chance.integers(0, 50, CUSTOMERS)] for name in ("first", "last")}
    countries = chance.choice(["CHILE", "GREECE", "TOGO"], CUSTOMERS)
    return pa.table(
        {
            "c_customer_sk": pa.array(keys, pa.int64()),
            "c_customer_id": [f"AAAAAAAA{each:08}" for each in keys],
            "c_first_name": pa.array(names["first"], mask=chance.random(CUSTOMERS) < 0.04),
            "c_last_name": names["last"],
            "c_preferred_cust_flag": pa.array(chance.choice(["Y", "N"], CUSTOMERS)),
            "c_birth_country": pa.array(countries, mask=chance.random(CUSTOMERS) < 0.04),
            "c_login": pa.nulls(CUSTOMERS, pa.string()),
            "c_email_address": [f"{each}@example.org" for each in keys],
        }
    )


def dates() -> pa.Table:
    days = np.arange(DAYS)
    years = pa.array(days.astype("datetime64[D]") + np.datetime64("1998-01-01").astype(int))
    return pa.table(
        {"d_date_sk": pa.array(days + FIRST_DAY, pa.int64()), "d_year": pa.compute.year(years).cast(pa.int32())}
    )


def sales(table: str, rows: int, chance: np.random.Generator) -> pa.Table:
    long, short = SALES[table][0], SALES[table][0][:2]
    missing = chance.random((2, rows)) < 0.03
    given = {
        f"{short}_sold_date_sk": pa.array(chance.integers(FIRST_DAY, FIRST_DAY + DAYS, rows), mask=missing[0]),
        f"{long}_customer_sk": pa.array(chance.integers(1, CUSTOMERS + 1, rows), mask=missing[1]),
    }
    for name in ("discount_amt", "sales_price", "wholesale_cost", "list_price"):
        given[f"{short}_ext_{name}"] = prices(chance.integers(0, 1_000_000, rows))
    return pa.table(given)


def updated(table: pa.Table, rows: np.ndarray, fresh: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return a table of which some rows are replaced, and the changes that do so."""
    kept = np.ones(table.num_rows, np.bool_)
    kept[rows] = False
    after = pa.concat_tables([table.filter(pa.array(kept)), fresh])
    weights = pa.array([-1] * len(rows) + [1] * fresh.num_rows, pa.int64())
    return after, pa.concat_tables([table.take(pa.array(rows)), fresh]).append_column("_weight", weights)


@pytest.mark.early
def test_query_4(tmp_path):
    chance = np.random.default_rng(4)
    tables = {"customer": customers(chance), "date_dim": dates()}
    tables |= {name: sales(name, rows, chance) for name, (_, rows) in SALES.items()}
    sources = {name: jn.Source(each.schema, static=name == "date_dim") for name, each in tables.items()}
    view = jn.view(tmp_path / "state", QUERY, sources=sources)
    answer: Counter[tuple[object, ...]] = Counter()
    changes = dict(tables)
    seen = set()
    for epoch in range(6):
        for batch in view.apply(**changes, offset=epoch):
            for *row, weight in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                answer[tuple(row)] += weight
        if epoch == 3:
            view.close()
            view = jn.view(tmp_path / "state", QUERY, sources=sources)
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            wanted = connection.execute(QUERY).fetchall()
        assert +answer == Counter(wanted)
        assert [tuple(row.values()) for row in view.result().to_pylist()] == wanted
        seen.add(tuple(wanted))
        changes = {}
        for name, (_, rows) in SALES.items():
            gone = chance.choice(tables[name].num_rows, rows // 50, replace=False)
            tables[name], changes[name] = updated(tables[name], gone, sales(name, rows // 60, chance))
        gone = chance.choice(CUSTOMERS, 3, replace=False)
        renamed = tables["customer"].take(pa.array(gone))
        renamed = renamed.set_column(3, "c_last_name", pa.array([f"Doe {epoch}"] * 3))
        tables["customer"], changes["customer"] = updated(tables["customer"], gone, renamed)
    view.close()
    assert len(wanted) > 5
    assert len(seen) == 6
