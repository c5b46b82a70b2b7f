"""Tables come back as they were from the narrow form in which they travel."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from juncture.spark.tasks.packets import narrowed, widened, widened_bytes

SIGNED = [pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.time32("ms"), pa.time64("ns"), pa.duration("s")]
TYPES = [*SIGNED, pa.uint16(), pa.uint32(), pa.uint64(), pa.timestamp("us"), pa.timestamp("ns", "Asia/Tokyo")]


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    """Draw a column of whole numbers that lie near each other or far apart, with nulls, and a part of a longer one."""
    data_type = draw(st.sampled_from(TYPES))
    is_unsigned = data_type in (pa.uint16(), pa.uint32(), pa.uint64())
    bits = data_type.bit_width
    bottom, top = (0, 2**bits - 1) if is_unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    least = draw(st.sampled_from([bottom, 0, top - 300, draw(st.integers(bottom, top))]))
    span = draw(st.sampled_from([0, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32]))
    numbers = st.integers(least, min(least + span, top))
    values = draw(st.lists(st.one_of(st.none(), numbers), max_size=12))
    storage = pa.array(values, pa.uint64() if is_unsigned else pa.int64())
    column = storage.cast(getattr(pa, f"{'u' if is_unsigned else ''}int{bits}")()).view(data_type)
    return column.slice(draw(st.integers(0, 2)))


@given(columns())
def test_numbers_come_back(column: pa.Array) -> None:
    fields = [pa.field("n", column.type, metadata={"unit": "m"}), pa.field("x", pa.float64())]
    table = pa.table([column, pa.nulls(len(column), pa.float64())], schema=pa.schema(fields, {"whose": "ours"}))
    narrow = narrowed(table)
    assert widened(narrow).equals(table, check_metadata=True)
    assert widened(narrow.select(["x"])).equals(table.select(["x"]), check_metadata=True)
    saved = (column.type.bit_width - narrow.schema.field("n").type.bit_width) * len(column) // 8
    assert widened_bytes(narrow) == saved


@pytest.mark.parametrize(
    ("values", "narrow"),
    [
        ([7, None, 7 + 255], pa.uint8()),
        ([-1, 2**16 - 2], pa.uint16()),
        ([-(2**63), -(2**63) + 2**32 - 1], pa.uint32()),
        ([0, 2**32], pa.int64()),
        ([-(2**63), 2**63 - 1], pa.int64()),
        ([None, None], pa.int64()),
        ([], pa.int64()),
    ],
)
def test_as_few_bytes_are_taken_as_the_span_of_the_numbers_needs(values: list[int | None], narrow: pa.DataType) -> None:
    table = pa.table({"n": pa.array(values, pa.int64())})
    assert narrowed(table).schema.field("n").type == narrow
    assert widened(narrowed(table)).equals(table)


def test_what_is_no_whole_number_is_left_alone() -> None:
    table = pa.table({"text": ["a"], "flag": [True], "byte": pa.array([1], pa.int8()), "float": [0.5]})
    assert narrowed(table) is table
    assert widened(table) is table
