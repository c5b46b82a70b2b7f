"""Random pairs of Arrow types that a column of the left table and one of the right may have, by what they are for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa

__all__ = ["ORDERED", "Pair", "by_types", "encoded", "on_types", "payload_type", "predicate_types"]

Pair = tuple[pa.DataType, pa.DataType]

UNITS = ("s", "ms", "us", "ns")
ZONES = ("UTC", "America/New_York", "Asia/Tokyo", "+05:30")
INTEGERS = tuple(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64))
FLOATS = (pa.float16(), pa.float32(), pa.float64())
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2))
TIMES = (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))
DURATIONS = tuple(pa.duration(unit) for unit in UNITS)
DATES = (pa.date32(), pa.date64())
# The widths of decimals, and the most digits that each has.
DECIMALS = ((pa.decimal32, 9), (pa.decimal64, 18), (pa.decimal128, 38), (pa.decimal256, 76))
INDEXES = tuple(getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64))
RUN_ENDS = (pa.int16(), pa.int32(), pa.int64())


def decimal(chance: Random) -> pa.DataType:
    """Return a type of decimals of any width, some of negative scale or of as many digits as there are."""
    make, most = chance.choice(DECIMALS)
    digits = chance.choice([min(most, 5), min(most, 10), most])
    return make(digits, chance.choice([0, 0, 1, 2, 2, 3, min(digits, 9), -1, -2]))


def pair_of(*types: pa.DataType) -> Callable[[Random], Pair]:
    """Return what draws a pair of some types, the same one twice now and then."""

    def draw(chance: Random) -> Pair:
        one = chance.choice(types)
        return one, one if chance.random() < 0.4 else chance.choice(types)

    return draw


def decimals(chance: Random) -> Pair:
    one = decimal(chance)
    return one, one if chance.random() < 0.4 else decimal(chance)


def timestamps(chance: Random) -> Pair:
    is_zoned = chance.random() < 0.3
    units = [chance.choice(UNITS)] * 2 if chance.random() < 0.4 else chance.choices(UNITS, k=2)
    return tuple(pa.timestamp(unit, chance.choice(ZONES) if is_zoned else None) for unit in units)


def times(chance: Random) -> Pair:
    return tuple(chance.choices(TIMES, k=2))


def durations(chance: Random) -> Pair:
    one = chance.choice(DURATIONS)
    return one, one if chance.random() < 0.9 else chance.choice(DURATIONS)


def nulls(chance: Random) -> Pair:
    """Return a pair of which one side has nothing but nulls, as an empty table of pandas or Polars has."""
    other = chance.choice([pa.null(), pa.int64(), pa.string(), pa.float64(), pa.timestamp("us"), pa.decimal128(9, 2)])
    pair = [pa.null(), other]
    chance.shuffle(pair)
    return pair[0], pair[1]


def lists(chance: Random, depth: int) -> Pair:
    items = by_types(chance, depth + 1)

    def wrapped(item: pa.DataType) -> pa.DataType:
        form = chance.random()
        if form < 0.6:
            return pa.list_(item)
        return pa.large_list(item) if form < 0.85 else pa.list_(item, 2)

    return wrapped(items[0]), wrapped(items[1])


def structs(chance: Random, depth: int) -> Pair:
    fields = [by_types(chance, depth + 1) for _ in range(chance.randint(1, 3))]
    names = chance.choice(["abc", "xyz"])
    is_required = [chance.random() < 0.15 and pa.null() not in pair for pair in fields]

    def made(side: int, names: str) -> pa.DataType:
        parts = zip(names, fields, is_required, strict=False)
        return pa.struct([pa.field(name, pair[side], nullable=not required) for name, pair, required in parts])

    return made(0, "abc"), made(1, names)


ORDERED: dict[str, Callable[[Random], Pair]] = {
    "integer": pair_of(*INTEGERS),
    "float": pair_of(*FLOATS),
    "decimal": decimals,
    "date": pair_of(*DATES),
    "timestamp": timestamps,
}
"""The kinds of types that have an order and distances."""

SCALARS: dict[str, Callable[[Random], Pair]] = ORDERED | {
    "string": pair_of(*TEXTS),
    "binary": pair_of(*BYTES),
    "boolean": pair_of(pa.bool_()),
    "time": times,
    "duration": durations,
    "null": nulls,
}


def encoded(chance: Random, data_type: pa.DataType, likely: float = 0.12) -> pa.DataType:
    """Return a type as it is, or within a dictionary or runs."""
    if chance.random() >= likely or pa.types.is_null(data_type):
        return data_type
    if chance.random() < 0.6:
        return pa.dictionary(chance.choice(INDEXES), data_type, ordered=chance.random() < 0.2)
    return pa.run_end_encoded(chance.choice(RUN_ENDS), data_type)


def on_types(chance: Random, count: int = 1) -> list[Pair]:
    """Return the types of pairs of columns that are all compared with one another by order, in any encoding."""
    kind = chance.choices([*ORDERED, "null"], [4, 3, 3, 2, 4, 0.3])[0]
    pairs = [SCALARS[kind](chance)] * count
    if kind == "timestamp":
        # Of another unit perhaps, but with a zone or without one as the others.
        pairs[1:] = [tuple(pa.timestamp(chance.choice(UNITS), each.tz) for each in pair) for pair in pairs[1:]]
    elif chance.random() < 0.3:
        pairs[1:] = [SCALARS[kind](chance) for _ in pairs[1:]]
    return [(encoded(chance, one), encoded(chance, other)) for one, other in pairs]


def by_types(chance: Random, depth: int = 0) -> Pair:
    """Return the types of two columns that have to be equal."""
    kinds = [*SCALARS, "list", "struct"]
    nested = 1.5 if depth < 2 else 0
    kind = chance.choices(kinds, [4, 2, 2, 1, 2, 4, 1, 1, 1, 0.5, 0.3, nested, nested])[0]
    if kind == "list":
        pair = lists(chance, depth)
    elif kind == "struct":
        pair = structs(chance, depth)
    else:
        pair = SCALARS[kind](chance)
    if depth:
        # Arrow makes no runs within lists, and few dictionaries.
        is_text = pa.types.is_string(pair[0]) and chance.random() < 0.1
        return (pa.dictionary(pa.int8(), pair[0]), pair[1]) if is_text else pair
    return encoded(chance, pair[0], 0.2), encoded(chance, pair[1], 0.2)


def payload_type(chance: Random) -> pa.DataType:
    """Return the type of a column that is only carried along."""
    rare = chance.random()
    if rare < 0.04:
        return pa.map_(chance.choice([pa.string(), pa.int8()]), by_types(chance, 1)[0])
    if rare < 0.06:
        return pa.month_day_nano_interval()
    if rare < 0.08:
        return chance.choice([pa.list_view, pa.large_list_view])(by_types(chance, 2)[0])
    return chance.choice(by_types(chance))


def predicate_types(chance: Random) -> tuple[str, Pair]:
    """Return a kind of values that predicates compare, and the types of a left and a right column of it."""
    kinds = [*ORDERED, "string", "binary", "boolean", "duration", "null"]
    kind = chance.choices(kinds, [5, 3, 3, 2, 3, 2, 0.5, 0.5, 0.5, 0.3])[0]
    pair = SCALARS[kind](chance)
    return kind, (encoded(chance, pair[0], 0.05), encoded(chance, pair[1], 0.05))
