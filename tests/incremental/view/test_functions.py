"""Functions of SQL over Arrow's arrays."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from juncture.incremental.expressions.functions import FUNCTIONS

WAYS = {"add": Decimal.__add__, "subtract": Decimal.__sub__, "multiply": Decimal.__mul__}


@pytest.mark.parametrize("function", WAYS)
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.decimal128(7, 2), pa.decimal128(7, 2)),
        (pa.decimal128(7, 2), pa.decimal128(18, 5)),
        (pa.decimal128(37, 2), pa.decimal128(7, 2)),
        (pa.decimal128(38, 10), pa.decimal128(20, 1)),
        (pa.decimal256(9, 3), pa.decimal256(9, 1)),
    ],
)
def test_decimals_have_as_many_digits_as_they_may_need_up_to_38(function, one, other):
    first, second = (pa.array([Decimal("12.5"), None, Decimal("-3")], each) for each in (one, other))
    found = FUNCTIONS[function]([first, second], None)
    scale = one.scale + other.scale if function == "multiply" else max(one.scale, other.scale)
    whole = one.precision - one.scale, other.precision - other.scale
    digits = one.precision + other.precision if function == "multiply" else max(whole) + scale + 1
    assert found.type == pa.decimal128(min(digits, 38), scale)
    assert found.to_pylist() == [WAYS[function](*[Decimal("12.5")] * 2), None, WAYS[function](*[Decimal("-3")] * 2)]
