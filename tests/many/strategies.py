"""Random spines with tables, and the chain of single joins that says what their join is."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import juncture as jn

AGGREGATES = {"*": "count", "value": ["sum", "min", "last", ("quantile", 0.5), "list", ("arg_max", "known")]}
SUMS = {"*": "count", "value": ["sum", "count"]}

SPINE = pa.schema(
    [("id", pa.int64()), ("ts", pa.int64()), ("until", pa.int64()), ("key", pa.string()), ("part", pa.int32())]
)
RIGHT = pa.schema(
    [("ts", pa.int64()), ("key", pa.string()), ("part", pa.int32()), ("value", pa.int64()), ("known", pa.int64())]
)


def random_case(seed: int, *, in_process: bool = True) -> tuple[pa.Table, dict[str, jn.Right]]:
    """Return a spine and some tables, with ties, nulls, and keys that only one side has."""
    chance = random.Random(seed)
    spine = pa.Table.from_pylist([_spine_row(chance, number) for number in range(chance.choice([0, 1, 7, 40]))], SPINE)
    rights = {f"t{number}": _right(chance, number, in_process=in_process) for number in range(chance.randint(1, 5))}
    return spine, rights


def chained(spine: Any, rights: Mapping[str, jn.Right]) -> pa.Table:
    """Return the join of an Arrow spine with all tables, one after the other."""
    joined = spine
    for right in rights.values():
        own = jn.plan(spine.slice(0, 0), right.table, right.spec).execute().column_names[spine.num_columns :]
        shown = [right.prefix + name.removesuffix("_right") for name in own]
        one = jn.plan(joined, right.table, right.spec).execute()
        joined = one.rename_columns([*joined.column_names, *shown])
    return joined


def _spine_row(chance: random.Random, number: int) -> dict[str, Any]:
    start = _maybe(chance, chance.randint(0, 20))
    return {
        "id": number,
        "ts": start,
        "until": None if start is None else start + chance.randint(0, 5),
        "key": _maybe(chance, chance.choice("abcd")),
        "part": _maybe(chance, chance.randint(0, 2)),
    }


def _right_row(chance: random.Random) -> dict[str, Any]:
    return {
        "ts": _maybe(chance, chance.randint(0, 20)),
        "key": _maybe(chance, chance.choice("abcx")),
        "part": _maybe(chance, chance.randint(0, 2)),
        "value": _maybe(chance, chance.randint(-5, 5)),
        "known": chance.randint(0, 25),
    }


def _maybe(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.1 else value


def _right(chance: random.Random, number: int, *, in_process: bool) -> jn.Right:
    table = pa.Table.from_pylist([_right_row(chance) for _ in range(chance.choice([0, 1, 10, 60]))], RIGHT)
    by = chance.choice([None, "key", ["key", "part"]])
    how = chance.choice(["left", "left", "left", "inner"])
    prefix = f"t{number}_"
    kind = chance.choice(["asof", "asof", "range", "range", "overlap", "equi", "where"])
    if kind == "asof":
        spec: Any = jn.Asof(
            on="ts",
            by=by,
            how=how,
            direction=chance.choice(["backward", "forward", "nearest"]),
            tolerance=chance.choice([None, 2, 5]),
            allow_exact_matches=chance.random() < 0.8,
            nulls_equal=by is not None and chance.random() < 0.3,
            available_at=chance.choice([None, None, ("known", "until")]),
            ties=chance.choice(["greatest", "greatest", "first", "last"]) if in_process else "greatest",
        )
        known = chance.choice([None, "known", ("known", "until")])
        return jn.Right(table, spec, prefix=prefix, check_available_at=known)
    if kind == "range":
        lower, upper = chance.choice([(-5, 0), (None, -1), (0, 3), (-2, None)])
        closed = chance.choice(["both", "left", "right", "none"])
        agg: Any = chance.choice([AGGREGATES, SUMS])
        spec = jn.Range(on="ts", by=by, lower=lower, upper=upper, closed=closed, how=how, agg=agg)
        if chance.random() < 0.4:
            windows = {"near": (-2, 0), "far": (-9, -4), "all": (None, 3)}
            spec = jn.Range(on="ts", by=by, windows=windows, closed=closed, how=how, agg=agg)
        algorithm = chance.choice(["auto", "binary_search"])
        return jn.Right(
            table, spec, prefix=prefix, check_available_at=chance.choice([None, "known"]), algorithm=algorithm
        )
    if kind == "overlap":
        later = table.append_column(
            "end", pa.array([None if t is None else t + 3 for t in table["ts"].to_pylist()], pa.int64())
        )
        spec = jn.Overlap(left_interval=("ts", "until"), right_interval=("ts", "end"), by=by, how=how, agg=AGGREGATES)
        return jn.Right(later, spec, prefix=prefix)
    if chance.random() < 0.5:
        nulls_equal = chance.random() < 0.3
        where = chance.choice([None, "r.ts <= l.ts"])
        aggregated = jn.Equi(on="key", how=how, where=where, nulls_equal=nulls_equal, agg=AGGREGATES)
        if kind == "where":
            aggregated = jn.Where("l.ts - r.ts BETWEEN 0 AND 5", by=by, how=how, agg=AGGREGATES)
        return jn.Right(table, aggregated, prefix=prefix)
    keys = ["key", "part"] if kind == "where" else ["key"]
    first = {tuple(row[key] for key in keys): row for row in table.to_pylist()}
    unique = pa.Table.from_pylist(list(first.values()), RIGHT)
    where = "r.value <= l.ts" if kind == "where" else None
    spec = jn.Equi(on=keys, how=how, where=where, nulls_equal=chance.random() < 0.3)
    return jn.Right(unique, spec, prefix=prefix)
