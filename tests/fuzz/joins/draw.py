"""Random joins: two tables and the arguments of a spec over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.types as pat

from fuzz.data_types import Pair, by_types, on_types, payload_type, predicate_types
from fuzz.joins.predicates import Terms, condition
from fuzz.tables import Table, random_column, random_cuts
from fuzz.values import pools, position
from juncture.columnar.types import plain_type
from juncture.errors import JunctureError
from juncture.ordered.duration import duration_ns, is_duration
from juncture.spec.compared import can_be_key
from support.engines import spark_type
from support.kinds import SPECS

__all__ = ["KINDS", "Join", "random_join"]

HOWS = ("inner", "left", "right", "full", "semi", "anti")
CLOSED = ("both", "left", "right", "none")
INFINITY = float("inf")
NAMES = ("v", "x", "two words", "é", "on", "l", "number", "place", "code", "left_row", "a.b", "_right")
"""What columns may be called that are only carried along: what tables, or the engine itself, may call others."""


@dataclass(frozen=True)
class Join:
    """A join.

    Attributes
    ----------
    kind
        ``asof``, ``range``, ``overlap``, ``where`` or ``equi``.
    arguments
        Those of its spec.
    left, right
        Its tables.
    """

    kind: str
    arguments: dict[str, Any]
    left: Table
    right: Table


@dataclass
class Draft:
    """A join under way: what columns are to be made of, and the arguments so far."""

    chance: Random
    spark: bool
    arguments: dict[str, Any] = field(default_factory=dict)
    left: dict[str, tuple[pa.DataType, list[Any]]] = field(default_factory=dict)
    right: dict[str, tuple[pa.DataType, list[Any]]] = field(default_factory=dict)

    def types(self, draw: Callable[[Random], list[Pair]]) -> list[Pair]:
        """Return pairs of types that the engine has."""
        while True:
            pairs = draw(self.chance)
            if not self.spark or all(spark_type(data_type) for pair in pairs for data_type in pair):
                return pairs

    def by_types(self) -> Pair:
        """Return the types of two columns that have to be equal."""
        return self.types(lambda chance: [by_types(chance)])[0]

    def add(self, left: str, right: str, types: Pair) -> None:
        """Add a column to each table, of values that meet. Now and then their types do not compare."""
        values = pools(self.chance, *types)
        self.left[left] = types[0], values[0]
        if self.chance.random() < 0.003:
            types = self.by_types()
            values = pools(self.chance, *types)
        self.right[right] = types[1], values[1]

    def name(self, side: dict[str, Any], wanted: str) -> str:
        """Return a name that a table does not have."""
        while wanted in side:
            wanted += "_"
        return wanted


def random_join(chance: Random, *, spark: bool = False) -> Join:
    """Return a join of some kind, over tables whose types the engine has."""
    kind = chance.choices(list(KINDS), [4, 3, 2, 3, 3])[0]
    draft = Draft(chance, spark)
    KINDS[kind](draft)
    add_payload(draft)
    draft.arguments["how"] = chance.choice(HOWS)
    if kind != "asof" and chance.random() < 0.35:
        draft.arguments |= {"agg": aggregates(draft), "how": chance.choice([None, "left", "inner"])}
    if kind == "range" and "agg" in draft.arguments and chance.random() < 0.4:
        add_windows(draft)
    if chance.random() < 0.05:
        draft.arguments["suffix"] = chance.choice(["_r", "", "_other"])
    left, right = table_of(draft, draft.left), table_of(draft, draft.right)
    if kind == "overlap" and chance.random() < 0.9:
        left, right = forward(left, draft.arguments["left_interval"]), forward(right, draft.arguments["right_interval"])
    return settled(Join(kind, draft.arguments, left, right))


def settled(join: Join) -> Join:
    """Return a join, which keeps right rows only where the left columns that these fill are of their types."""
    if join.arguments["how"] not in ("right", "full"):
        return join
    try:
        SPECS[join.kind](**join.arguments).resolve(join.left.schema, join.right.schema)
    except JunctureError as error:
        if "keeps unmatched right rows" in str(error):
            return replace(join, arguments=join.arguments | {"how": "left"})
    return join


def table_of(draft: Draft, columns: dict[str, tuple[pa.DataType, list[Any]]]) -> Table:
    chance = draft.chance
    rows = chance.choice([0, 1, 2, 3, 5, 8, 8, 12, 12, 20, 40])
    cuts = random_cuts(chance, rows)
    names = chance.sample(list(columns), len(columns)) if chance.random() < 0.5 else list(columns)
    return Table(tuple(random_column(chance, name, *columns[name], rows, cuts) for name in names), rows)


def forward(table: Table, interval: tuple[str | None, str | None]) -> Table:
    """Return a table less the rows whose interval starts after its end: such data are refused."""
    if None in interval:
        return table
    columns = {column.name: column for column in table.columns}
    start, end = ([position(value, columns[name].type) for value in columns[name].values] for name in interval)
    rows = [row for row in range(table.num_rows) if None in (start[row], end[row]) or start[row] <= end[row]]
    return table.keep(rows)


def add_on(draft: Draft) -> pa.DataType:
    """Add the columns that are compared by order, and return the plain type of the left one."""
    types = draft.types(on_types)[0]
    if draft.chance.random() < 0.5:
        draft.add("ts", "ts", types)
        draft.arguments["on"] = "ts"
    else:
        draft.add("ts", "time", types)
        draft.arguments |= {"left_on": "ts", "right_on": "time"}
    return plain_type(types[0])


def add_more_on(draft: Draft) -> None:
    """Add columns that are compared after those that there are."""
    count = draft.chance.choice([1, 1, 2])
    keys = [key for key in ("on", "left_on", "right_on") if key in draft.arguments]
    names = {key: [draft.arguments[key], *(f"{draft.arguments[key]}{i}" for i in range(count))] for key in keys}
    for pair in zip(names[keys[0]][1:], names[keys[-1]][1:], strict=True):
        draft.add(*pair, draft.types(on_types)[0])
    draft.arguments |= names


def add_keys(draft: Draft, argument: str = "by", least: int = 0) -> None:
    """Add the columns that have to be equal."""
    chance = draft.chance
    count = max(least, chance.choices([0, 1, 2, 3], [3, 5, 2, 1])[0])
    are_shared = chance.random() < 0.5
    pairs = [(f"k{i}", f"k{i}" if are_shared else f"id{i}") for i in range(count)]
    for left, right in pairs:
        draft.add(left, right, draft.by_types())
    if pairs and are_shared:
        draft.arguments[argument] = [left for left, _ in pairs]
    elif pairs:
        sides = {"left": [left for left, _ in pairs], "right": [right for _, right in pairs]}
        draft.arguments |= {f"{side}_{argument}": names for side, names in sides.items()}


def add_payload(draft: Draft) -> None:
    """Add columns that are only carried along, and row numbers, which tell rows apart that are alike."""
    chance = draft.chance
    for side, own, most in ((draft.left, "a", 2), (draft.right, "b", 3)):
        for i in range(chance.randint(0, most)):
            data_type = draft.types(lambda chance: [(payload_type(chance),)])[0][0]
            name = draft.name(side, chance.choice([f"{own}{i}", chance.choice(NAMES)]))
            side[name] = data_type, pools(chance, data_type, data_type)[0]
    if chance.random() < 0.3:
        for side in (draft.left, draft.right):
            side[draft.name(side, "row")] = pa.int64(), list(range(40))


def add_column(draft: Draft, name: str, types: list[pa.DataType]) -> str:
    """Add a column of distances to the left table."""
    data_type = draft.types(lambda chance: [(chance.choice(types),)])[0][0]
    draft.left[name] = data_type, pools(draft.chance, data_type, data_type)[0]
    return name


def asof(draft: Draft) -> None:
    chance = draft.chance
    kind = add_on(draft)
    has_distances = chance.random() < 0.8
    if not has_distances:
        add_more_on(draft)
    add_keys(draft)
    draft.arguments |= {
        "direction": chance.choice(["backward", "forward", *["nearest"] * has_distances]),
        "allow_exact_matches": chance.random() < 0.7,
        "matches": chance.choice([1, 1, 1, 2, 3]),
        "ties": chance.choice(["greatest"] * 5 + ["error"]),
        "nulls_equal": chance.random() < 0.2,
        "coalesce": chance.random() < 0.7,
    }
    if draft.arguments["direction"] == "nearest":
        draft.arguments["prefer"] = chance.choice(["earlier", "later"])
    measure = chance.random() if has_distances else 1.0
    if measure < 0.25:
        draft.arguments["tolerance"] = abs(chance.choice(distances(kind))) if is_number(kind) else duration(chance)
    elif measure < 0.45:
        draft.arguments["tolerance"] = add_column(draft, "limit", distance_types(kind))
    if chance.random() < 0.2:
        draft.add("seen", "ingested", draft.types(on_types)[0])
        draft.arguments["available_at"] = ["ingested", "seen"]
    if chance.random() < 0.2:
        draft.arguments["where"] = random_predicate(draft)
    add_payload(draft)
    if chance.random() < 0.4:
        draft.arguments["order_by"] = chance.sample(list(draft.right), chance.randint(1, min(2, len(draft.right))))
    # Spark has no order of its own.
    if draft.arguments["ties"] == "greatest" and (draft.arguments.get("order_by") or not draft.spark):
        draft.arguments["ties"] = chance.choice(["greatest", "first", "last"])


def range_(draft: Draft) -> None:
    chance = draft.chance
    kind = add_on(draft)
    add_keys(draft)
    draft.arguments["closed"] = chance.choice(CLOSED)
    ends = chance.choice([("lower", "upper")] * 3 + [("lower",), ("upper",)])
    for end in ends:
        if chance.random() < 0.4:
            draft.arguments[end] = add_column(draft, f"{end}_end", distance_types(kind))
        elif is_number(kind):
            draft.arguments[end] = chance.choice(distances(kind))
        else:
            draft.arguments[end] = chance.choice([0, duration(chance), f"-{duration(chance)}"])
    lower, upper = (length_of(draft.arguments.get(end)) for end in ("lower", "upper"))
    if lower is not None and upper is not None and lower > upper:
        draft.arguments |= {"lower": draft.arguments["upper"], "upper": draft.arguments["lower"]}


def overlap(draft: Draft) -> None:
    chance = draft.chance
    intervals = []
    types = draft.types(lambda chance: on_types(chance, 2))
    draft.add("start", "begin", types[0])
    draft.add("end", "finish", types[1])
    for names, side in ((("start", "end"), draft.left), (("begin", "finish"), draft.right)):
        missing = chance.choice([None] * 6 + [0, 1])
        intervals.append(tuple(None if i == missing else name for i, name in enumerate(names)))
        if missing is not None:
            del side[names[missing]]
    draft.arguments |= {"left_interval": intervals[0], "right_interval": intervals[1], "closed": chance.choice(CLOSED)}
    add_keys(draft)


def where(draft: Draft) -> None:
    draft.arguments["predicate"] = random_predicate(draft)
    draft.arguments["allow_cross"] = True
    if draft.chance.random() < 0.3:
        add_keys(draft)


def equi(draft: Draft) -> None:
    chance = draft.chance
    add_keys(draft, "on", least=1)
    draft.arguments |= {"nulls_equal": chance.random() < 0.3, "coalesce": chance.random() < 0.6}
    if chance.random() < 0.3:
        draft.arguments["where"] = random_predicate(draft)


def random_predicate(draft: Draft) -> str:
    """Add columns of one kind or two, and return a condition over them."""
    terms = []
    for names in (("xu", "yw"), ("cd", "ef"))[: draft.chance.choice([1, 1, 2])]:
        kinds: list[str] = []

        def drawn(chance: Random, kinds: list[str] = kinds) -> list[Pair]:
            kind, pair = predicate_types(chance)
            kinds.append(kind)
            return [pair]

        types = draft.types(drawn)[0]
        for left, right in zip(*names, strict=True):
            draft.add(left, right, types)
        terms.append(Terms(kinds[-1], tuple(f"l.{name}" for name in names[0]), tuple(f"r.{name}" for name in names[1])))
    return condition(draft.chance, terms)


KINDS: dict[str, Callable[[Draft], None]] = {
    "asof": asof,
    "range": range_,
    "overlap": overlap,
    "where": where,
    "equi": equi,
}
"""What makes a join of each kind."""


def is_number(kind: pa.DataType) -> bool:
    return pat.is_integer(kind) or pat.is_floating(kind) or pat.is_decimal(kind) or pat.is_null(kind)


def distances(kind: pa.DataType) -> list[Any]:
    """Return distances between numbers of a type."""
    numbers: list[Any] = [0, 1, 2, 5.5, 2**63 - 1, 2**63, 2**64, 10**30]
    if pat.is_floating(kind):
        numbers = [0, 0.5, 1, 2.5, 5e-324, 1e308, INFINITY]
    elif pat.is_decimal(kind):
        numbers = [0, 1, Decimal("0.01"), 0.3, 100, 10**30, Decimal("1e-30")]
    return [*numbers, *(-number for number in numbers)]


def length_of(bound: Any) -> Any:
    """Return a number for what a bound says; None where it is a column, or open."""
    if not isinstance(bound, str):
        return bound
    return duration_ns(bound, argument="bound") if is_duration(bound) else None


def duration(chance: Random) -> str:
    """Return a length of time."""
    lengths = ["0s", "1ns", "1us", "500ms", "1s", "1500ms", "2s", "36h", "2d", "100000000000d"]
    return chance.choice(lengths)


def distance_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types of a column of distances between values of a type."""
    if pat.is_timestamp(kind) or pat.is_date(kind):
        return [pa.duration(unit) for unit in ("s", "ms", "us", "us", "ns")]
    if pat.is_floating(kind):
        return [pa.float64(), pa.float32(), pa.float16(), pa.int64(), pa.uint8()]
    if pat.is_decimal(kind):
        return [pa.decimal128(10, 2), pa.decimal256(50, 4), pa.decimal64(12, -1), pa.decimal32(5, 1), pa.int64()]
    return [pa.int64(), pa.int64(), pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())]


def add_windows(draft: Draft) -> None:
    """Put several windows in place of one: now and then ones that are no windows, or columns."""
    ends = draft.arguments.pop("lower", None), draft.arguments.pop("upper", None)
    windows = {"w": ends, "x": {"lower": ends[0], "upper": None}, "y": (None, ends[1]), "z": (ends[1], ends[1])}
    kept = [name for name in windows if draft.chance.random() < 0.6 and (name == "w" or None not in ends)]
    draft.arguments["windows"] = {name: windows[name] for name in kept or ["w"]}


def aggregates(draft: Draft) -> dict[str, Any]:
    """Return aggregates of some right columns."""
    chosen: dict[str, Any] = {"*": "count"} if draft.chance.random() < 0.7 else {}
    for name, (data_type, _) in draft.right.items():
        if draft.chance.random() < 0.5:
            functions = functions_of(plain_type(data_type)) + functions_of_two(draft, plain_type(data_type))
            chosen[name] = draft.chance.sample(functions, draft.chance.randint(1, min(3, len(functions))))
    return chosen or {"*": "count"}


def functions_of(data_type: pa.DataType) -> list[Any]:
    functions: list[Any] = ["count", "first", "last", "list"]
    functions += ["count_distinct"] if can_be_key(data_type) else []
    functions += ["any", "all"] if pat.is_boolean(data_type) else []
    functions += ["min", "max"] if has_least(data_type) else []
    return [*functions, "sum", "mean", "std", "median", ("quantile", 0.3)] if is_real(data_type) else functions


def functions_of_two(draft: Draft, data_type: pa.DataType) -> list[Any]:
    """Return functions of a column and another one. Products of extreme floats are beyond all of them."""
    found: list[Any] = []
    for name, (kind, _) in draft.right.items():
        kind = plain_type(kind)
        if has_least(kind) and not (pat.is_dictionary(draft.right[name][0]) and draft.right[name][0].ordered):
            found += [("arg_min", name), ("arg_max", name)]
        if pat.is_integer(kind) and pat.is_integer(data_type):
            found.append(("weighted_mean", name))
    return found


def is_real(data_type: pa.DataType) -> bool:
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_decimal(data_type))


def has_least(data_type: pa.DataType) -> bool:
    return is_real(data_type) or bool(
        pat.is_date(data_type) or pat.is_timestamp(data_type) or pat.is_duration(data_type)
    )
