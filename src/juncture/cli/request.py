"""What a user asks for beside the join itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from juncture.files.text.options import TextOptions


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the inputs of a join are read, both alike.

    Attributes
    ----------
    named
        Their format, where nothing else says it.
    text
        What a user says of CSV and JSON.
    casts
        The types that columns are converted to, whatever the format.
    """

    named: str | None = None
    text: TextOptions = field(default_factory=TextOptions)
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a user asks for beside the join itself; see `options` for the meaning of each."""

    left: str
    right: str
    output: Path | None
    overwrite: bool
    reading: Reading
    rows: int
    engine: str
    algorithm: str
    explain: bool
    output_format: str | None = None
    report: bool = False
    as_json: bool = False
    memory: str | None = None
