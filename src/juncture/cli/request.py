"""What a command requests besides the join itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from juncture.errors import SpecError, did_you_mean
from juncture.files.text.options import TextOptions
from juncture.spec.kinds import Spec
from juncture.spec.schema import Side


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the inputs of a join are read: the named format, options for text, and types to cast columns to."""

    named: str | None = None
    union_by_name: bool = False
    text: TextOptions = field(default_factory=TextOptions)
    casts: Mapping[str, pa.DataType] = field(default_factory=dict)

    def finding(self, columns: frozenset[str]) -> Reading:
        """Return the options with inferred types for some columns, even if all others are text."""
        return replace(self, text=replace(self.text, found=columns))

    def check_columns(self, names: Collection[str]) -> None:
        """Raise `SpecError` for a type of a column that neither input has."""
        for option, types in (("--type", self.text.types), ("--cast", self.casts)):
            unknown = next((name for name in types if name not in names), None)
            if unknown is not None:
                raise SpecError(
                    f"{option} names column {unknown!r}, which neither table has. {did_you_mean(unknown, names)}",
                    name="JN-ARGUMENT-VALUE",
                )


def order_columns(spec: Spec) -> dict[Side, frozenset[str]]:
    """Return the columns of each side that order rows, since text would order them differently."""
    left, right = spec.ordered_keys()
    # Expressions have their own types.
    return {
        "left": frozenset(name for name in left if isinstance(name, str)),
        "right": frozenset(name for name in right if isinstance(name, str)),
    }


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command requests besides the join itself; see `options` for the meaning of each."""

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
