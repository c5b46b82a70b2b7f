from __future__ import annotations

import pytest

from juncture.errors import SpecError
from juncture.spec.size import format_size, size_bytes


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (5, 5),
        ("5 B", 5),
        ("2GB", 2 * 10**9),
        ("2gb", 2 * 10**9),
        (" 1.5 MB ", 1_500_000),
        ("64KiB", 65_536),
        ("1TiB", 1 << 40),
    ],
)
def test_sizes(value, size):
    assert size_bytes(value, argument="memory") == size


@pytest.mark.parametrize("value", [0, -1, True, 1.5, None, "", "2", "GB", "-2GB", "2 XB", "2GB1", "0MB"])
def test_what_is_no_size(value):
    with pytest.raises(
        SpecError, match=r"is not a positive size\. Expected a number of bytes, or a text such as '2GB'"
    ):
        size_bytes(value, argument="memory")


def test_sizes_as_text():
    assert [format_size(size) for size in (999, 1_500, 2 * 10**9)] == ["999 B", "1.5 kB", "2.0 GB"]
