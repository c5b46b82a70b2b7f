"""The example pipeline of `juncture init`, with its data: trades, quotes and accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from juncture.errors import PlanError

_TRADES, _QUOTES, _ACCOUNTS = 2_000, 10_000, 50
_SYMBOLS = ("AAA", "BBB", "CCC", "DDD")
_SECOND = 1_000_000
_DAY = 6 * 3600 * _SECOND

_TEXT = """\
# Trades with the quote in force at their time. `juncture check` validates this file without reading the data,
# `juncture explain pipeline` describes how it will run, and `juncture run` runs it: on Spark, in this process with
# --engine local, and as a stream with --stream.

[pipeline]
name = "trades"

[parameters]
least = 10                              # juncture run --set least=100

[sources.trades]
path = "data/trades"                    # a folder, a file or a glob
order = { on = "ts", delay = "10s" }    # with --stream, rows arrive in this order

[sources.quotes]
path = "data/quotes.parquet"

[sources.accounts]
path = "data/accounts.csv"

[steps.large]
from = "trades"
filter = "amount >= ${least}"

[steps.quoted]                          # the last quote of the symbol, at most a minute old
join = "asof"
left = "large"
right = "quotes"
on = "ts"
by = "symbol"
tolerance = "1m"

[steps.priced]
join = "equi"
left = "quoted"
right = "accounts"
on = "account"
how = "left"

[steps.valued]
from = "priced"
select = ["*", "amount * (bid + ask) / 2 AS value"]

[[checks]]
from = "quoted"
min_match_rate = 0.9
max_distance = { p99 = "1m" }

[[checks]]
from = "accounts"
unique = "account"

[sinks.valued]
from = "valued"
path = "output/valued"
mode = "overwrite"
"""


def write_example(folder: Path) -> list[Path]:
    """Write a pipeline and its data, and return their paths. Existing files are not replaced."""
    file, data = folder / "juncture.toml", folder / "data"
    for path in (file, data):
        if path.exists():
            raise PlanError(
                f"{path} exists and is not replaced. Pass another folder: juncture init FOLDER.",
                name="JN-OUTPUT-EXISTS",
            )
    (data / "trades").mkdir(parents=True)
    generator = np.random.default_rng(7)
    trades = pa.table(
        {
            "ts": _times(generator, _TRADES),
            "symbol": pa.array(generator.choice(_SYMBOLS, _TRADES)),
            "account": generator.integers(1, _ACCOUNTS + 1, _TRADES),
            "amount": generator.integers(1, 500, _TRADES),
        }
    )
    for part in range(2):
        half = _TRADES // 2
        pq.write_table(trades.slice(part * half, half), data / "trades" / f"{part}.parquet")
    bid = np.round(100 + generator.normal(0, 5, _QUOTES), 2)
    quotes = {
        "ts": _times(generator, _QUOTES),
        "symbol": pa.array(generator.choice(_SYMBOLS, _QUOTES)),
        "bid": bid,
        "ask": np.round(bid + 0.05, 2),
    }
    pq.write_table(pa.table(quotes), data / "quotes.parquet")
    names = [f"account {number}" for number in range(1, _ACCOUNTS + 1)]
    csv.write_csv(pa.table({"account": range(1, _ACCOUNTS + 1), "owner": names}), data / "accounts.csv")
    file.write_text(_TEXT, encoding="utf-8")
    return [file, data]


def _times(generator: np.random.Generator, rows: int) -> pa.Array:
    start = int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()) * _SECOND
    return pa.array(start + np.sort(generator.integers(0, _DAY, rows)), pa.timestamp("us", "UTC"))
