"""One case of streams: a join, the orders of its sides, and how their rows come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow.types as pat

import juncture as jn
from fuzz.joins.draw import Join, random_join
from fuzz.joins.smaller import smaller_joins
from juncture.columnar.types import plain_type
from juncture.errors import JunctureError
from juncture.planner.decision import Engine
from juncture.streams.order import SideOrder
from support.kinds import SPECS, Spec
from support.streams import SIDES, rows_in_order

__all__ = ["Step", "StreamCase", "draw", "smaller", "streamed_join"]

ORDERED = (pat.is_integer, pat.is_floating, pat.is_decimal, pat.is_date, pat.is_timestamp)
COMPARED = (-1, 3, None, None)
"""Pairs to compare for each row up to which rows are held in their order; None for the usual number."""


@dataclass(frozen=True)
class Step:
    """A step.

    Attributes
    ----------
    left, right
        How many rows come in.
    heartbeats
        The sides whose least values that are still to come are announced afterwards.
    restarts
        Whether the join is saved and restored afterwards.
    """

    left: int = 0
    right: int = 0
    heartbeats: tuple[str, ...] = ()
    restarts: bool = False


@dataclass(frozen=True)
class StreamCase:
    """A case.

    Attributes
    ----------
    join
        The join, with the rows in the order in which they come.
    left_orders, right_orders
        The orders of the sides.
    steps
        How the rows come in. After the last step, all others do at once.
    compared
        Pairs to compare for each row up to which rows are held in their order.
    """

    join: Join
    left_orders: tuple[jn.Order, ...]
    right_orders: tuple[jn.Order, ...]
    steps: tuple[Step, ...]
    compared: int | None = None

    def spec(self) -> Spec:
        return SPECS[self.join.kind](**self.join.arguments)

    def orders(self, side: str) -> tuple[jn.Order, ...]:
        return self.left_orders if side == "left" else self.right_orders


def streamed_join(join: Join) -> Join:
    """Return a join less the arguments that only joins of tables take."""
    refused = {"asof": ("available_at", "where"), "where": ("agg",), "equi": ("agg",)}.get(join.kind, ())
    arguments = {name: value for name, value in join.arguments.items() if name not in refused}
    if arguments.get("how", "inner") is None and "agg" not in arguments:
        arguments["how"] = "full"
    if arguments.get("ties") in ("first", "last"):
        arguments["ties"] = "greatest"
    if join.kind == "asof":
        for name in ("on", "left_on", "right_on"):
            arguments |= {name: arguments[name][0]} if isinstance(arguments.get(name), list) else {}
    return replace(join, arguments=arguments)


def draw(seed: int, number: int, engine: Engine = "local") -> StreamCase:
    """Return the case of a number, which is the same whenever the seed is."""
    chance = Random(f"streams {seed} {number}")
    join = streamed_join(random_join(chance))
    orders: dict[str, tuple[jn.Order, ...]] = {}
    for side in SIDES:
        table = getattr(join, side)
        orders[side] = random_orders(chance, join, side)
        rows = list(range(table.num_rows))
        if orders[side]:
            rows = rows_in_order(table.arrow(), side, orders[side][0], chance, disorder=chance.choice([0, 0, 2, 5]))
        join = replace(join, **{side: table.keep(rows)})
    steps = random_steps(chance, join.left.num_rows, join.right.num_rows)
    return StreamCase(join, orders["left"], orders["right"], steps, chance.choice(COMPARED))


def random_orders(chance: Random, join: Join, side: str) -> tuple[jn.Order, ...]:
    """Return orders by some columns, first of all by those that are compared."""
    table = getattr(join, side)
    text = str(join.arguments)
    names = [each.name for each in table.schema if any(test(plain_type(each.type)) for test in ORDERED)]
    chance.shuffle(names)
    names.sort(key=lambda name: f"'{name}'" not in text and f"{side[0]}.{name}" not in text)
    orders = []
    for name in names[: chance.choice([0, 1, 1, 1, 1, 2])]:
        data_type = plain_type(table.schema.field(name).type)
        is_time = pat.is_date(data_type) or pat.is_timestamp(data_type)
        delay = chance.choice([None, None, "1s", "2d"] if is_time else [None, None, 1, 3])
        order = jn.Order(name, delay=delay, descending=chance.random() < 0.2)
        try:
            SideOrder.of(order, side, table.schema)
        except JunctureError:
            continue
        orders.append(order)
    return tuple(orders)


def random_steps(chance: Random, left: int, right: int) -> tuple[Step, ...]:
    """Return steps in which all rows come in: side by side, or one side first."""
    rest, most, lead = {"left": left, "right": right}, chance.choice([1, 3, 8]), chance.choice([0.1, 0.5, 0.9])
    steps = []
    while any(rest.values()):
        rows = dict.fromkeys(SIDES, 0)
        open_sides = [side for side in SIDES if rest[side]]
        if len(open_sides) == 2 and chance.random() < 0.7:
            open_sides = ["left" if chance.random() < lead else "right"]
        for each in open_sides:
            rows[each] = min(rest[each], chance.randint(1, most))
            rest[each] -= rows[each]
        heartbeats = tuple(each for each in SIDES if chance.random() < 0.15)
        steps.append(Step(rows["left"], rows["right"], heartbeats, chance.random() < 0.1))
    return tuple(steps)


def smaller(case: StreamCase) -> Iterator[StreamCase]:
    """Yield cases that are a little smaller."""
    if case.compared is not None:
        yield replace(case, compared=None)
    if case.steps:
        yield replace(case, steps=tuple(replace(step, restarts=False, heartbeats=()) for step in case.steps))
        yield replace(case, steps=())
        yield replace(case, steps=case.steps[: len(case.steps) // 2])
    yield from (replace(case, join=join) for join in smaller_joins(case.join))
    for place, step in enumerate(case.steps):
        yield replace(case, steps=(*case.steps[:place], *case.steps[place + 1 :]))
        plain: dict[str, Any] = {"restarts": False, "heartbeats": (), "left": 0, "right": 0}
        for name, value in plain.items():
            if getattr(step, name) != value:
                other = replace(step, **{name: value})
                yield replace(case, steps=(*case.steps[:place], other, *case.steps[place + 1 :]))
    for name in ("left_orders", "right_orders"):
        orders = getattr(case, name)
        for place, order in enumerate(orders):
            yield replace(case, **{name: (*orders[:place], *orders[place + 1 :])})
            if order.delay is not None:
                yield replace(case, **{name: (*orders[:place], replace(order, delay=None), *orders[place + 1 :])})
