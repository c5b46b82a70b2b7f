"""Sizes of memory: bytes, or text such as ``"2GB"``."""

from __future__ import annotations

import re
from decimal import Decimal

from juncture.errors import SpecError
from juncture.values import whole_number

_UNITS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}


def size_bytes(value: str | int, *, argument: str) -> int:
    """Return a size in bytes. kB, MB, GB, TB are powers of 1,000, and KiB, MiB, GiB, TiB of 1,024, in any case."""
    size = whole_number(value)
    if isinstance(value, str):
        parts = re.fullmatch(r"\s*(\d{1,30}(?:\.\d{1,30})?)\s*([a-zA-Z]+)\s*", value)
        if parts is not None and parts[2].lower() in _UNITS:
            size = int(Decimal(parts[1]) * _UNITS[parts[2].lower()])
    if size is None or size <= 0:
        raise SpecError(
            f"{argument}={value!r} is not a positive size. Expected a number of bytes, or a text such as '2GB', "
            "'500MB' or '1.5GiB'.",
            name="JN-SIZE-SYNTAX",
        )
    return size


def format_size(size: int) -> str:
    """Return a size as text, in powers of 1,000."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"
