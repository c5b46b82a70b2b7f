"""The example pipeline of `juncture init`, with its data: trades, quotes and accounts."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.resources import files
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
    file.write_bytes(files(__package__).joinpath("example.toml").read_bytes())
    return [file, data]


def _times(generator: np.random.Generator, rows: int) -> pa.Array:
    start = int(datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()) * _SECOND
    return pa.array(start + np.sort(generator.integers(0, _DAY, rows)), pa.timestamp("us", "UTC"))
