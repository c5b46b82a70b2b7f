"""Nexmark's queries as views: events that one CPU second takes.

The events are made as by Nexmark's generator: of 50 events one is a person, three are auctions and 46 are bids. Nine in
ten bids go to a few hot auctions, and one in four auctions is of a hot seller. They are applied in epochs of equal
size. Each query runs in a process of its own, and a view that is new to it takes the first epochs before time counts.

    python benchmarks/nexmark.py --queries q3 q4 q20 --result benchmarks/results/nexmark.json
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from juncture_benchmarks.machine import describe_machine

FOLDER = Path(__file__).resolve().parent
RESULTS = FOLDER / "results" / "nexmark.json"
PAGE = FOLDER.parent / "docs" / "how-it-works" / "benchmarks" / "nexmark.md"

EVENTS_OF_A_CYCLE = 50
HOT_AUCTIONS, HOT_SELLERS = 100, 100
"""The hot auction is the first of this many, and so is the hot seller."""
COLD_CHANNELS = 10_000
"""Half of the bids are from these channels, and half from four hot ones."""
IN_FLIGHT = 100
"""Auctions that may get bids, and people who are active."""
EVENTS_A_SECOND = 10_000
FELDERA = "https://github.com/feldera/feldera/blob/main/benchmark/README.md"
FELDERA_16_CORES = {
    "q0": 6_973_987,
    "q1": 6_595_871,
    "q2": 6_748_549,
    "q3": 6_608_075,
    "q4": 4_233_521,
    "q5": 6_589_786,
    "q6": 3_997_921,
    "q7": 3_136_763,
    "q8": 6_641_870,
    "q9": 910_680,
    "q12": 6_682_259,
    "q13": 3_675_255,
    "q14": 6_858_711,
    "q15": 3_539_322,
    "q16": 810_701,
    "q17": 3_870_269,
    "q18": 1_358_216,
    "q19": 1_201_216,
    "q20": 1_352_192,
    "q21": 6_634_820,
    "q22": 6_305_568,
}
"""Events per second on 16 cores."""
DBSP = "https://github.com/vmware-archive/database-stream-processor/pull/198"
DBSP_CORE = {"q0": 1.17, "q1": 1.09, "q2": 1.09, "q3": 1.01, "q4": 0.81}
"""Millions of events per second and core, of 8 cores."""
FIRST_MICROSECONDS = 1_436_918_400_000_000


def _by_rank(counted: str, name: str) -> str:
    """Return the counts of all bids, and of those at low, medium and high prices."""
    ranks = {"": "", "low_": " FILTER (price < 10000)", "medium_": " FILTER (price >= 10000 AND price < 1000000)"}
    ranks["high_"] = " FILTER (price >= 1000000)"
    return ", ".join(f"count({counted}){condition} AS {rank}{name}" for rank, condition in ranks.items())


QUERIES = {
    "q0": "SELECT auction, bidder, price, date_time FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, date_time FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """
        SELECT person.name, person.city, person.state, auction.id
        FROM auction JOIN person ON auction.seller = person.id
        WHERE auction.category = 10 AND (person.state = 'OR' OR person.state = 'ID' OR person.state = 'CA')""",
    "q4": """
        SELECT category, avg(final) AS mean FROM (
            SELECT max(bid.price) AS final, auction.category AS category
            FROM auction JOIN bid ON auction.id = bid.auction
            WHERE bid.date_time BETWEEN auction.date_time AND auction.expires
            GROUP BY auction.id, auction.category) AS winning
        GROUP BY category""",
    "q5": """
        SELECT auction, bids, start FROM (
            SELECT auction, start, count(*) AS bids
            FROM (
                SELECT auction, time_bucket(INTERVAL 2 SECOND, date_time) - to_seconds(back) AS start
                FROM bid CROSS JOIN (VALUES (0), (2), (4), (6), (8)) AS slides(back))
            GROUP BY auction, start)
        QUALIFY rank() OVER (PARTITION BY start ORDER BY bids DESC) = 1""",
    "q6": """
        SELECT seller, id, avg(final) OVER (
            PARTITION BY seller ORDER BY closed, id ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS mean
        FROM (
            SELECT auction.id, auction.seller, bid.price AS final, bid.date_time AS closed
            FROM auction JOIN bid ON auction.id = bid.auction
            WHERE bid.date_time BETWEEN auction.date_time AND auction.expires
            QUALIFY row_number() OVER (PARTITION BY auction.id ORDER BY bid.price DESC, bid.date_time) = 1)""",
    "q7": """
        SELECT bid.auction, bid.price, bid.bidder, bid.date_time
        FROM bid JOIN (
            SELECT max(price) AS most, time_bucket(INTERVAL 10 SECOND, date_time) AS start FROM bid GROUP BY start) top
        ON bid.price = top.most AND time_bucket(INTERVAL 10 SECOND, bid.date_time) = top.start""",
    "q8": """
        SELECT DISTINCT person.id, person.name, time_bucket(INTERVAL 10 SECOND, person.date_time) AS start
        FROM person JOIN auction ON person.id = auction.seller
            AND time_bucket(INTERVAL 10 SECOND, person.date_time) = time_bucket(INTERVAL 10 SECOND, auction.date_time)
        """,
    "q9": """
        SELECT auction.id, auction.item_name, auction.initial_bid, auction.reserve, auction.date_time, auction.expires,
            auction.seller, auction.category, bid.bidder, bid.price, bid.date_time AS bid_time, bid.extra
        FROM auction JOIN bid ON auction.id = bid.auction
        WHERE bid.date_time BETWEEN auction.date_time AND auction.expires
        QUALIFY row_number() OVER (PARTITION BY auction.id ORDER BY bid.price DESC, bid.date_time) = 1""",
    "q10": """
        SELECT auction, bidder, price, date_time, extra, strftime(date_time, '%Y-%m-%d') AS day,
            strftime(date_time, '%H:%M') AS minute
        FROM bid""",
    "q11": """
        SELECT bidder, count(*) AS bids, min(date_time) AS start, max(date_time) AS last
        FROM (
            SELECT bidder, date_time, sum(starts) OVER (PARTITION BY bidder ORDER BY date_time) AS session
            FROM (
                SELECT bidder, date_time, CASE WHEN date_time - lag(date_time) OVER (
                    PARTITION BY bidder ORDER BY date_time) <= INTERVAL 10 SECOND THEN 0 ELSE 1 END AS starts
                FROM bid))
        GROUP BY bidder, session""",
    "q12": """
        SELECT bidder, count(*) AS bids, time_bucket(INTERVAL 10 SECOND, arrived) AS start
        FROM bid GROUP BY bidder, start""",
    "q13": """
        SELECT bid.auction, bid.bidder, bid.price, bid.date_time, side_input.value
        FROM bid JOIN side_input ON bid.auction % 10000 = side_input.key""",
    "q14": """
        SELECT auction, bidder, 0.908 * price AS price, date_time, extra,
            CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'day'
                WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'night' ELSE 'other' END AS time_of_day,
            length(extra) - length(replace(extra, 'c', '')) AS count_of_c
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"""
        SELECT date_trunc('day', date_time) AS day, {_by_rank("*", "bids")}, {_by_rank("DISTINCT bidder", "bidders")},
            {_by_rank("DISTINCT auction", "auctions")}
        FROM bid GROUP BY day""",
    "q16": f"""
        SELECT channel, date_trunc('day', date_time) AS day, max(strftime(date_time, '%H:%M')) AS minute,
            {_by_rank("*", "bids")}, {_by_rank("DISTINCT bidder", "bidders")},
            {_by_rank("DISTINCT auction", "auctions")}
        FROM bid GROUP BY channel, day""",
    "q17": f"""
        SELECT auction, date_trunc('day', date_time) AS day, {_by_rank("*", "bids")}, min(price) AS least,
            max(price) AS most, avg(price) AS mean, sum(price) AS total
        FROM bid GROUP BY auction, day""",
    "q18": """
        SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) = 1""",
    "q19": """
        SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS place FROM bid
        QUALIFY place <= 10""",
    "q20": """
        SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, bid.date_time, auction.item_name,
            auction.initial_bid, auction.reserve, auction.expires, auction.seller, auction.category
        FROM bid JOIN auction ON bid.auction = auction.id WHERE auction.category = 10""",
    "q21": """
        SELECT auction, bidder, price, channel, CASE lower(channel)
            WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
            ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
        FROM bid
        WHERE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) <> ''
            OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """
        SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
            split_part(url, '/', 6) AS dir3
        FROM bid""",
}


def schemas() -> dict[str, Any]:
    """Return the columns of each table."""
    import pyarrow as pa

    at = pa.timestamp("us")
    return {
        "person": pa.schema(
            {"id": pa.int64(), "name": pa.string(), "city": pa.string(), "state": pa.string(), "date_time": at}
        ),
        "auction": pa.schema(
            {
                "id": pa.int64(),
                "item_name": pa.string(),
                "initial_bid": pa.int64(),
                "reserve": pa.int64(),
                "date_time": at,
                "expires": at,
                "seller": pa.int64(),
                "category": pa.int64(),
            }
        ),
        "bid": pa.schema(
            {
                "auction": pa.int64(),
                "bidder": pa.int64(),
                "price": pa.int64(),
                "channel": pa.string(),
                "url": pa.string(),
                "date_time": at,
                "extra": pa.string(),
                "arrived": at,
            }
        ),
        "side_input": pa.schema({"key": pa.int64(), "value": pa.string()}),
    }


def sources_of(sql: str) -> dict[str, Any]:
    """Return the tables that a query reads."""
    import juncture as jn

    read = {name: schema for name, schema in schemas().items() if f" {name}" in sql}
    return {name: jn.Source(schema, static=name == "side_input") for name, schema in read.items()}


def changes_of(tables: dict[str, Any], sources: dict[str, Any]) -> dict[str, Any]:
    """Return the rows of the sources that have some."""
    return {name: tables[name] for name in sources if tables[name].num_rows}


def epochs(events: int, size: int, events_a_second: int = EVENTS_A_SECOND) -> Iterator[dict[str, Any]]:
    """Yield the rows of each table, ``size`` events at a time. The side input is in the first epoch."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    random = np.random.default_rng(1)
    columns = schemas()
    states = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
    cities = pa.array(["Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne"])
    channels = pa.array(["Google", "Facebook", "Baidu", "Apple"])
    words = pa.array(["books", "maps", "music", "toys", "tools"])

    def of(values: Any, choices: Any) -> Any:
        return choices.take(pa.array(values % len(choices)))

    def text(prefix: str, numbers: Any) -> Any:
        return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")

    for first in range(0, events, size):
        event = np.arange(first, min(events, first + size))
        cycle, place = event // EVENTS_OF_A_CYCLE, event % EVENTS_OF_A_CYCLE
        at = FIRST_MICROSECONDS + event * (1_000_000 // events_a_second)
        last_person = cycle
        last_auction = 3 * cycle + np.clip(place - 1, 0, 2)

        here = np.flatnonzero(place == 0)
        person = {
            "id": last_person[here],
            "name": text("name ", last_person[here]),
            "city": of(random.integers(0, 6, len(here)), cities),
            "state": of(random.integers(0, 6, len(here)), states),
            "date_time": at[here],
        }
        here = np.flatnonzero((place >= 1) & (place <= 3))
        hot = random.random(len(here)) < 0.75
        hot_seller = last_person[here] // HOT_SELLERS * HOT_SELLERS
        cold_seller = np.maximum(last_person[here] - random.integers(0, 1_000, len(here)), 0)
        initial = (10 ** (random.random(len(here)) * 6)).astype(np.int64)
        auction = {
            "id": last_auction[here],
            "item_name": text("item ", last_auction[here]),
            "initial_bid": initial,
            "reserve": initial + random.integers(1, 1_000, len(here)),
            "date_time": at[here],
            "expires": at[here] + random.integers(1, 20_000_000, len(here)),
            "seller": np.where(hot, hot_seller, cold_seller),
            "category": 10 + random.integers(0, 5, len(here)),
        }
        here = np.flatnonzero(place > 3)
        hot = random.random(len(here)) < 0.5
        hot_auction = last_auction[here] // HOT_AUCTIONS * HOT_AUCTIONS
        cold_auction = np.maximum(last_auction[here] - random.integers(0, IN_FLIGHT, len(here)), 0)
        bid = {
            "auction": np.where(hot, hot_auction, cold_auction),
            "bidder": np.maximum(last_person[here] - random.integers(0, 1_000, len(here)), 0),
            "price": (10 ** (random.random(len(here)) * 6)).astype(np.int64) * 100,
            "date_time": at[here],
            "arrived": np.full(len(here), at[-1]),
        }
        channel = random.integers(0, 2 * COLD_CHANNELS, len(here))
        is_cold = pa.array(channel < COLD_CHANNELS)
        bid["channel"] = pc.if_else(is_cold, text("channel-", channel), of(channel, channels))
        folders = pc.binary_join_element_wise(*(of(channel // each, words) for each in (1, 5, 25)), "/")
        url = pc.binary_join_element_wise("https://www.nexmark.com/", folders, "/item.htm?query=1", "")
        bid["url"] = pc.if_else(is_cold, pc.binary_join_element_wise(url, text("&channel_id=", channel), ""), url)
        bid["extra"] = text("accd", channel)
        side = range(10_000 if first == 0 else 0)
        side_input = {"key": list(side), "value": [str(each) for each in side]}
        tables = {"person": person, "auction": auction, "bid": bid, "side_input": side_input}
        yield {
            name: pa.table([pa.array(table[field.name]).cast(field.type) for field in columns[name]], columns[name])
            for name, table in tables.items()
        }


def measure(query: str, events: int, size: int, *, in_folder: bool) -> dict[str, Any]:
    """Return what a query takes: CPU seconds without those of making the events, and seconds to open its folder."""
    import juncture as jn

    sql = QUERIES[query]
    sources = sources_of(sql)
    warm = jn.view(None, sql, sources=sources)
    for tables in epochs(5 * size, size):
        warm.apply(**changes_of(tables, sources))
    folder = Path(tempfile.mkdtemp())
    try:
        view = jn.view(folder / "state" if in_folder else None, sql, sources=sources)
        cpu, slowest, emitted = 0.0, 0.0, 0
        for tables in epochs(events, size):
            changed = changes_of(tables, sources)
            start, wall = time.process_time(), time.perf_counter()
            changes = view.apply(**changed)
            cpu += time.process_time() - start
            slowest = max(slowest, time.perf_counter() - wall)
            emitted += sum(batch.num_rows for batch in changes)
        found = {"events": events, "epoch": size, "cpu_s": cpu, "slowest_s": slowest, "emitted": emitted}
        found["millions_per_cpu_s"] = events / cpu / 1e6
        if in_folder:
            view.close()
            start = time.process_time()
            jn.view(folder / "state", sql, sources=sources).close()
            found["open_cpu_s"] = time.process_time() - start
        return found
    finally:
        shutil.rmtree(folder)


def page(results: dict[str, Any]) -> str:
    """Return the page of some results."""

    def published(query: str) -> str:
        feldera = f"{FELDERA_16_CORES[query] / 16e6:.2f}" if query in FELDERA_16_CORES else ""
        return f"{feldera} | {DBSP_CORE.get(query, '')}"

    rows = [
        f"| {query} | {found['millions_per_cpu_s']:.2f} | {1_000 * found['slowest_s']:.0f} ms | {published(query)} |"
        for query, found in sorted(results["queries"].items(), key=lambda each: int(each[0][1:]))
    ]
    machine = results["machine"]
    return "\n".join(
        [
            "# Nexmark, measured",
            "",
            "Nexmark's queries as views in memory, on events made as by Nexmark's generator. Each query has a process",
            "of its own, which applies five epochs to another view first.",
            "",
            "| query | M events per CPU second | longest epoch | Feldera, one of 16 cores | DBSP, one of 8 cores |",
            "| --- | ---: | ---: | ---: | ---: |",
            *rows,
            "",
            f"{results['events']:,} events in epochs of {results['epoch']:,}, on {results['measured']}.",
            f"{machine['cpu']}, {machine['cores']} cores, {machine['system']}.",
            "`python benchmarks/nexmark.py` measures it, and `QUERIES` there has the SQL.",
            "",
            "The last two columns are published figures: M events per second of the clock, divided by the cores. Their",
            "machines differ from this one and from each other, and the generators of their events share the cores. So",
            "they show the order of magnitude, and a direct comparison needs one machine.",
            "",
            f"- Feldera: the streaming mode in [its repository]({FELDERA}), which states neither machine nor date.",
            f"- DBSP, the engine of Feldera, in 2022, by 8 cores: q0 to q4 in [a pull request]({DBSP}).",
            "",
        ]
    )


def main() -> None:
    """Measure some queries, each in a process of its own, or make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", nargs="*", choices=list(QUERIES), default=list(QUERIES))
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--epoch", type=int, default=10_000, help="events of an epoch")
    parser.add_argument("--in-folder", action="store_true", help="keep the state in a folder, and open it again")
    parser.add_argument("--result", type=Path, help="add what is measured to this file, and make the page of it")
    parser.add_argument("--one", choices=list(QUERIES), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.events, chosen.epoch, in_folder=chosen.in_folder)))
        return
    results: dict[str, Any] = {"queries": {}}
    if chosen.result and chosen.result.exists():
        results = json.loads(chosen.result.read_text())
    for query in chosen.queries:
        command = [
            sys.executable,
            __file__,
            "--one",
            query,
            "--events",
            str(chosen.events),
            "--epoch",
            str(chosen.epoch),
        ]
        command += ["--in-folder"] * chosen.in_folder
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        more = f", opened in {found['open_cpu_s']:.2f} s" if "open_cpu_s" in found else ""
        print(
            f"{query}: {found['millions_per_cpu_s']:.2f}M events per CPU second, longest epoch "
            f"{1_000 * found['slowest_s']:.0f} ms, {found['emitted']:,} changes{more}",
            flush=True,
        )
        results["queries"][query] = found
    if chosen.result:
        results |= {"epoch": chosen.epoch, "events": chosen.events, "measured": datetime.now(UTC).date().isoformat()}
        results["machine"] = describe_machine()
        chosen.result.write_text(json.dumps(results, indent=2) + "\n")
        PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
