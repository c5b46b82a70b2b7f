"""`Pipeline.verify`: correct pipelines are equal in all ways, and planted faults are found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import juncture as jn
from juncture.errors import SpecError
from juncture.pipeline.example import write_example
from juncture.pipeline.local_changes import MaintainedSteps
from juncture.streams.join import StreamJoin

TRADES = {"ts": pa.int64(), "symbol": pa.string(), "amount": pa.float64()}
QUOTES = {"ts": pa.int64(), "symbol": pa.string(), "bid": pa.float64()}
HEAD = """
[sources.trades]
path = "trades.parquet"
order = { on = "ts", delay = 20 }

[sources.quotes]
path = "quotes.parquet"
order = { on = "ts", delay = 5 }
"""
ASOF = """
[steps.priced]
join = "asof"
left = "trades"
right = "quotes"
on = "ts"
by = "symbol"
"""
SUMS = """
[steps.sums]
from = "priced"
by = "symbol"
agg = { total = "sum(amount * bid)", trades = "count(*)" }
"""


def rows(schema: dict[str, pa.DataType], count: int, delay: int, seed: int) -> pa.Table:
    """Return rows whose times are at most some units behind, some null."""
    chance = random.Random(seed)
    times = [5 * number + chance.randint(-(delay // 2), delay // 2) for number in range(count)]
    symbols = [chance.choice(["A", "B", "C", None]) for _ in range(count)]
    values = [chance.choice([None, 0.1, 0.25, 7.0, chance.random()]) for _ in range(count)]
    return pa.table([times, symbols, values], schema=pa.schema(schema))


def pipeline(folder: Path, steps: str, *, count: int = 60, seed: int = 0, delay: int = 20) -> jn.Pipeline:
    pq.write_table(rows(TRADES, count, delay, seed), folder / "trades.parquet")
    pq.write_table(rows(QUOTES, count, 5, seed + 1), folder / "quotes.parquet")
    (folder / "juncture.toml").write_text(HEAD + steps)
    return jn.Pipeline.from_toml(folder / "juncture.toml")


def outcomes(report: Any) -> dict[tuple[str, str], str]:
    return {(each.step, each.way): each.outcome for each in report.steps}


DEFINITIONS = {
    "as-of": ASOF,
    "as-of, then sums": ASOF + SUMS,
    "nearest": ASOF.replace("by =", 'direction = "nearest"\ntolerance = 9\nby ='),
    "forward, two matches": ASOF.replace("by =", 'direction = "forward"\nmatches = 2\ntolerance = 30\nby ='),
    "inner": ASOF.replace("by =", 'how = "inner"\ntolerance = 8\nby ='),
    "range": ASOF.replace('"asof"', '"range"').replace("by =", "lower = -10\nupper = 3\nby ="),
    "range, full": ASOF.replace('"asof"', '"range"').replace("by =", 'how = "full"\nlower = -4\nupper = 0\nby ='),
    "windows": ASOF.replace('"asof"', '"range"').replace(
        "by =", 'lower = -40\nupper = 0\nagg = { bid = "mean" }\nby ='
    ),
    "anti": ASOF.replace('"asof"', '"range"').replace("by =", 'how = "anti"\nlower = -2\nupper = 2\nby ='),
    "predicate": """
[steps.priced]
join = "where"
left = "trades"
right = "quotes"
predicate = "l.ts > r.ts AND l.ts < r.ts + 9 AND l.amount > r.bid"
""",
    "filter first": """
[steps.large]
from = "trades"
filter = "amount > 0.2"
"""
    + ASOF.replace('left = "trades"', 'left = "large"'),
    "SQL": ASOF
    + """
[steps.sums]
from = ["priced", "quotes"]
sql = '''
SELECT symbol, max(bid) AS bid
FROM (SELECT symbol, bid FROM priced UNION ALL SELECT symbol, bid FROM quotes) GROUP BY symbol
'''
""",
}


def cases() -> list[Any]:
    """Return each definition once, and nightly with many seeds."""
    nightly = [(name, seed) for name in DEFINITIONS for seed in range(1, 18)]
    return [
        *(pytest.param(name, 0, id=name) for name in DEFINITIONS),
        *(pytest.param(name, seed, id=f"{name}, {seed}", marks=pytest.mark.nightly) for name, seed in nightly),
    ]


@pytest.mark.parametrize(("name", "seed"), cases())
def test_one_definition_means_the_same_in_all_ways(name: str, seed: int, tmp_path: Path) -> None:
    report = pipeline(tmp_path, DEFINITIONS[name], seed=seed).verify(seed=seed)
    assert {key: each for key, each in outcomes(report).items() if each != "equal"} == {}, report.steps
    assert {each.way for each in report.steps} == {"stream", "changes"}


def test_a_join_that_cannot_be_streamed_is_refused_with_the_reason(tmp_path: Path) -> None:
    steps = ASOF.replace('"asof"', '"equi"').replace('on = "ts"\nby = "symbol"', 'on = "symbol"')
    report = pipeline(tmp_path, steps).verify()
    assert outcomes(report) == {("priced", "stream"): "refused", ("priced", "changes"): "equal"}
    assert "JN-STREAM-UNBOUNDED" in report.steps[0].detail
    assert report.is_equal


def test_rows_later_than_their_order_allows_are_found(tmp_path: Path) -> None:
    report = pipeline(tmp_path, ASOF, delay=90).verify()
    assert outcomes(report) == {("priced", "stream"): "different", ("priced", "changes"): "equal"}
    assert "late" in report.steps[0].detail
    assert not report.is_equal


def test_the_sample_is_the_first_rows_of_each_source(tmp_path: Path) -> None:
    report = pipeline(tmp_path, ASOF).verify(sample_rows=7)
    assert report.sample_rows == {"trades": 7, "quotes": 7}
    assert {each.rows for each in report.steps} == {7}
    with pytest.raises(SpecError, match=r"sample_rows=0 \(int\) is not a number of rows"):
        pipeline(tmp_path, ASOF).verify(sample_rows=0)


def dropped(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [batch.slice(1) if batch.num_rows > 1 else batch for batch in batches]


def doubled(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [*batches, *batches[:1]]


def changed(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return [
        batch.set_column(batch.schema.get_field_index("bid"), "bid", pa.nulls(batch.num_rows, pa.float64()))
        for batch in batches
    ]


def late(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return batches[1:]


def nothing(_batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return []


Fault = Callable[[list[pa.RecordBatch]], list[pa.RecordBatch]]


@pytest.mark.parametrize("fault", [dropped, doubled, changed, late, nothing])
@pytest.mark.parametrize("way", ["stream", "changes"])
def test_a_planted_fault_is_found(way: str, fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "stream":
        push = StreamJoin.push
        monkeypatch.setattr(StreamJoin, "push", lambda self, **sides: fault(push(self, **sides)))
    else:
        apply = MaintainedSteps.apply
        monkeypatch.setattr(
            MaintainedSteps,
            "apply",
            lambda self, **changes: {name: fault(batches) for name, batches in apply(self, **changes).items()},
        )
    report = pipeline(tmp_path, ASOF).verify()
    found = outcomes(report)
    assert found == {("priced", each): "different" if each == way else "equal" for each in ("stream", "changes")}
    detail = next(each.detail for each in report.steps if each.way == way)
    assert "symbol=" in detail
    assert "missing" in detail


def test_the_command_prints_the_outcomes_and_fails_if_one_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer.testing import CliRunner

    from juncture.cli.main import app

    write_example(tmp_path / "example")
    file = str(tmp_path / "example" / "juncture.toml")
    good = CliRunner().invoke(app, ["verify", file, "--sample", "200", "--json"])
    assert good.exit_code == 0, good.output
    report = json.loads(good.stdout)
    assert report["equal"]
    assert {each["step"] for each in report["steps"]} == {"large", "quoted", "priced", "valued"}
    push = StreamJoin.push
    monkeypatch.setattr(StreamJoin, "push", lambda self, **sides: dropped(push(self, **sides)))
    bad = CliRunner().invoke(app, ["verify", file, "--sample", "200"])
    assert bad.exit_code == 1
    assert "quoted, stream: " in bad.stdout
