"""Counts and sums over windows around the rows of a spine, added up while right rows stream past it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import juncture as jn
from juncture.local.many.plan import plan
from juncture.local.many.window_sums import can_stream
from juncture.planner.statistics import Resources
from juncture.runtime.memory import MEMORY_BYTES
from juncture.runtime.threads import SIZES
from juncture.spec.range import ResolvedRange
from many.strategies import chained
from support.small import SMALL

AGG: Any = {"*": "count", "value": ["sum", "count"], "other": "count"}
ENDS = {
    pa.int64(): st.integers(-6, 6) | st.integers(-(2**63), 2**63 - 1),
    pa.int16(): st.integers(-6, 6),
    pa.float64(): st.integers(-6, 6).map(float) | st.floats(width=64),
    pa.timestamp("ms"): st.integers(-6, 6) | st.integers(-(2**62), 2**62),
    pa.decimal128(5, 1): st.integers(-6, 6).map(str).map(pa.scalar).map(lambda each: each.cast(pa.decimal128(5, 1))),
}
VALUES = {
    pa.int64(): st.integers(-5, 5) | st.integers(-(2**61), 2**61),
    pa.uint64(): st.integers(0, 5) | st.integers(2**61, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.dictionary(pa.int8(), pa.int32()): st.integers(-5, 5),
}


def column(data: st.DataObject, values: st.SearchStrategy[Any], data_type: pa.DataType, rows: int) -> pa.Array:
    cells = data.draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
    return pa.array([each.as_py() if isinstance(each, pa.Scalar) else each for each in cells], data_type)


def table(data: st.DataObject, on: pa.DataType, value: pa.DataType) -> pa.Table:
    rows = data.draw(st.integers(0, 12))
    return pa.table(
        {
            "at": column(data, ENDS[on], on, rows),
            "key": column(data, st.sampled_from("abc"), pa.string(), rows),
            "value": column(data, VALUES[value], value, rows),
            "other": column(data, st.floats(), pa.float64(), rows),
        }
    )


def length(on: pa.DataType, steps: int | None) -> Any:
    return timedelta(milliseconds=steps) if pa.types.is_timestamp(on) and steps is not None else steps


@pytest.mark.parametrize("sizes", [SIZES, SMALL], ids=["whole", "pieces"])
@given(data=st.data())
def test_equals_the_chain_of_single_joins(sizes: Any, data: st.DataObject) -> None:
    on = data.draw(st.sampled_from(list(ENDS)))
    ends = st.sampled_from([(-2, 0), (None, -1), (0, 3), (1, None), (-3, -3), (-1, 1)])
    is_bounded = lambda windows: {(None, -1), (1, None)} != set(windows)  # noqa: E731
    windows = data.draw(st.none() | st.lists(ends, min_size=2, max_size=2).filter(is_bounded))
    shared: dict[str, Any] = {
        "on": "at",
        "by": data.draw(st.none() | st.just("key")),
        "how": data.draw(st.sampled_from(["left", "inner"])),
        "closed": data.draw(st.sampled_from(["both", "left", "none"])),
        "agg": AGG,
    }
    if windows is None:
        lower, upper = data.draw(ends)
        spec = jn.Range(lower=length(on, lower), upper=length(on, upper), **shared)
    else:
        named = zip(("one", "two"), windows, strict=True)
        lengths = {name: (length(on, lower), length(on, upper)) for name, (lower, upper) in named}
        spec = jn.Range(windows=lengths, **shared)
    values = st.sampled_from(list(VALUES))
    left, right = table(data, on, pa.int64()), table(data, on, data.draw(values))
    rights = {"right": jn.Right(right, spec, algorithm="binary_search")}
    try:
        expected = chained(left, rights)
    except jn.DataError as error:
        # A sum that does not fit its type.
        with pytest.raises(jn.DataError, match=error.name):
            jn.join_many(left, rights)
        return
    resources = Resources(cores=data.draw(st.integers(1, 3)), memory_bytes=MEMORY_BYTES, sizes=sizes)
    joined = plan(left, rights, resources).execute()
    # The columns of the spine may have NaN, which equals nothing.
    added = range(left.num_columns, expected.num_columns)
    assert joined.rename_columns(expected.column_names).select(added).equals(expected.select(added))


@pytest.mark.parametrize(
    ("changed", "streams"),
    [
        ({}, True),
        ({"agg": {"other": "sum"}}, False),
        ({"agg": {"value": "mean"}}, False),
        ({"lower": "value"}, False),
    ],
)
def test_streams_what_totals_of_constant_windows_are(changed: dict[str, Any], streams: bool) -> None:
    schema = pa.schema({"at": pa.int64(), "key": pa.string(), "value": pa.int64(), "other": pa.float64()})
    join = jn.Range(**{"on": "at", "by": "key", "lower": -1, "upper": 0, "agg": AGG, **changed}).resolve(schema, schema)
    assert isinstance(join, ResolvedRange)
    assert can_stream(join) == streams
