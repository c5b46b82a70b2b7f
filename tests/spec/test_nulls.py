"""Columns of Arrow's null type take the type of what they are compared with, and are of the null type in the output."""

from __future__ import annotations

import pyarrow as pa
import pytest

from juncture.errors import SchemaError
from juncture.ordered.numbers import Decimals, Floats, Integers
from juncture.ordered.times import Dates, Timestamps
from juncture.spec.asof import Asof
from juncture.spec.equi import Equi
from juncture.spec.overlap import Overlap
from juncture.spec.range import Range
from juncture.spec.where import Where

NULL = pa.null()
EMPTY_CATEGORIES = pa.dictionary(pa.int8(), NULL)


def schema(**types: pa.DataType) -> pa.Schema:
    return pa.schema(list(types.items()))


@pytest.mark.parametrize("empty", [NULL, EMPTY_CATEGORIES], ids=str)
@pytest.mark.parametrize("on", [pa.int8(), pa.float16(), pa.decimal128(5, -2), pa.date32(), pa.timestamp("s", "UTC")])
def test_on_takes_the_kind_of_the_other_side(on, empty):
    for left, right in ((empty, on), (on, empty)):
        join = Asof(on="ts").resolve(schema(ts=left), schema(ts=right))
        assert join.domain == Asof(on="ts").resolve(schema(ts=on), schema(ts=on)).domain
        assert join.left_schema == join.right_schema == schema(ts=on)
        assert join.user_schema(schema(ts=left), schema(ts=right)) == schema(ts=left)


@pytest.mark.parametrize(
    ("window", "domain"),
    [
        ({"lower": 0}, Integers()),
        ({"lower": "-5m"}, Timestamps("us")),
        ({"lower": "w"}, Timestamps("s")),
        ({"lower": 0, "upper": "f"}, Floats()),
        ({"lower": "n", "upper": "d"}, Decimals(2)),
        ({"lower": "n"}, Integers()),
    ],
)
def test_distances_tell_the_kind_where_neither_side_does(window, domain):
    left = schema(ts=NULL, w=pa.duration("s"), f=pa.float32(), d=pa.decimal128(5, 2), n=NULL)
    join = Range(on="ts", **window).resolve(left, schema(ts=NULL))
    assert join.domain == domain
    assert not any(pa.types.is_null(join.left_schema.field(name).type) for name in join.compared("left"))


def test_a_column_of_distances_is_one_of_the_domain():
    for on, distance in ((pa.date32(), pa.duration("us")), (pa.float64(), pa.int64())):
        join = Asof(on="ts", tolerance="limit").resolve(schema(ts=on, limit=NULL), schema(ts=on))
        assert join.left_schema == schema(ts=on, limit=distance)


def test_ends_of_intervals():
    spec = Overlap(left_interval=("s", "e"), right_interval=("b", "f"), by="k")
    left, right = schema(s=NULL, e=NULL, k=NULL), schema(b=NULL, f=pa.date64(), k=NULL)
    join = spec.resolve(left, right)
    assert join.domain == Dates()
    assert join.left_schema == schema(s=pa.date64(), e=pa.date64(), k=pa.int64())
    assert join.user_schema(left, right) == schema(s=NULL, e=NULL, k=NULL, b=NULL, f=pa.date64())


@pytest.mark.parametrize(
    ("left", "right", "how", "shown"),
    [
        (NULL, pa.int64(), "left", NULL),
        (NULL, pa.int64(), "right", pa.int64()),
        (NULL, pa.dictionary(pa.int8(), pa.string()), "full", pa.dictionary(pa.int8(), pa.string())),
        (pa.string(), NULL, "full", pa.string()),
        (NULL, NULL, "full", NULL),
        (EMPTY_CATEGORIES, pa.int8(), "inner", EMPTY_CATEGORIES),
    ],
)
def test_only_a_column_that_is_filled_is_of_another_type(left, right, how, shown):
    for spec in (Equi(on="k", how=how), Where("1 = 1", by="k", how=how)):
        join = spec.resolve(schema(k=left), schema(k=right))
        assert join.user_schema(schema(k=left), schema(k=right)) == schema(k=shown)


def test_aggregates():
    agg = {"v": ["count", "sum", "mean", "std", "min", "max", "first", "last"]}
    left, right = schema(ts=pa.int8()), schema(ts=pa.int8(), v=NULL)
    types = Range(on="ts", lower=0, agg=agg).resolve(left, right).user_schema(left, right).types
    assert types == [pa.int8(), pa.int64(), pa.int64(), pa.float64(), pa.float64(), NULL, NULL, NULL, NULL]


def test_the_other_side_still_has_to_be_of_a_type_that_joins():
    with pytest.raises(SchemaError, match=r"The right on column 'ts' is of type bool, which this join cannot order by"):
        Asof(on="ts").resolve(schema(ts=NULL), schema(ts=pa.bool_()))
    with pytest.raises(SchemaError, match=r"The right by column 'k' is of type map<.*, and maps have no equality"):
        Where("1 = 1", by="k").resolve(schema(k=NULL), schema(k=pa.map_(pa.string(), pa.int8())))
    with pytest.raises(SchemaError, match=r"by= compares left 'ts' \(int8\) with right 'k' \(string\)"):
        Asof(left_on="ts", right_on="ts", left_by="ts", right_by="k").resolve(
            schema(ts=NULL), schema(ts=pa.int8(), k=pa.string())
        )
