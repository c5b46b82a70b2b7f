"""Values of ``on`` in SQL have the order that they have in this process, whatever their types."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name that PySpark's users know

from juncture.errors import PlanError
from juncture.ordered.arithmetic import TooWideError
from juncture.ordered.domain import RankCoder
from juncture.ordered.sql import sql_domain
from juncture.spec.asof import Asof, ResolvedAsof
from support.arrays import build
from support.column_types import SPARK_ON
from support.engines import to_spark
from support.value_pools import pool


def codes_of(join: ResolvedAsof, columns: list[pa.Array]) -> list[int | None]:
    """Return the codes of both sides' values in this process, None where a value has none."""
    try:
        coded = [join.domain.encode(column) for column in columns]
    except TooWideError:
        coded = [RankCoder.of(join.domain, columns).encode(column) for column in columns]
    codes = [codes.tolist() for codes, _ in coded]
    valid = [
        [True] * len(ours) if mask is None else mask.tolist() for ours, (_, mask) in zip(codes, coded, strict=True)
    ]
    return [
        code if there else None for side in zip(codes, valid, strict=True) for code, there in zip(*side, strict=True)
    ]


def words_of(join: ResolvedAsof, sides: list[str]) -> list[list]:
    """Return how SQL makes words of both sides' values, in each way that it has for their type."""
    types = join.left_schema.field("on").type, join.right_schema.field("on").type
    order = sql_domain(join.domain, types)
    order.check_distances()
    found = [[F.struct(*order.words(F.col(side))) for side in sides]]
    try:
        order.check_ends()
    except PlanError:
        assert join.domain.kind == "decimal"
        return found
    return [*found, [F.struct(order.word(F.col(side), each)) for side, each in zip(sides, types, strict=True)]]


@pytest.mark.in_turn
@pytest.mark.spark
def test_words_have_the_order_of_codes(spark):
    values = [[build([*pool(each), None], each) for each in types] for types in SPARK_ON]
    rows = max(len(column) for columns in values for column in columns)
    padded = {
        f"{side}{place}": pa.concat_arrays([column, pa.nulls(rows - len(column), column.type)])
        for place, columns in enumerate(values)
        for side, column in zip("lr", columns, strict=True)
    }
    joins = [Asof(on="on").resolve(*(pa.schema([("on", each)]) for each in types)) for types in SPARK_ON]
    words = [words_of(join, [f"l{place}", f"r{place}"]) for place, join in enumerate(joins)]
    made = {
        f"{place}_{way}_{side}": column
        for place, ways in enumerate(words)
        for way, sides in enumerate(ways)
        for side, column in zip("lr", sides, strict=True)
    }
    columns = [F.col("row"), *(column.alias(name) for name, column in made.items())]
    frame = to_spark(spark, pa.table({**padded, "row": pa.array(range(rows))}))
    table = sorted(frame.select(*columns).collect())
    for place, (join, ours) in enumerate(zip(joins, values, strict=True)):
        codes = codes_of(join, ours)
        for way in range(len(words[place])):
            found = [
                tuple(row[f"{place}_{way}_{side}"])
                for side, column in zip("lr", ours, strict=True)
                for row in table[: len(column)]
            ]
            assert [word[0] is not None for word in found] == [code is not None for code in codes], join.domain
            there = [(word, code) for word, code in zip(found, codes, strict=True) if code is not None]
            for (word, code), (other_word, other_code) in product(there, there):
                assert (word < other_word) == (code < other_code), (join.domain, word, other_word)
