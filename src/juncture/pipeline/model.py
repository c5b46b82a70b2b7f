"""What a pipeline's file may say: its tables and keys, each with its type.

Pydantic checks types, unknown and missing keys; arguments of joins go to the specs, which check themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from juncture.spec.kinds import Spec
from juncture.spec.many import Right

Text = Annotated[StrictStr, Field(min_length=1)]
Number: TypeAlias = StrictInt | float | Decimal
Option: TypeAlias = StrictStr | StrictBool | StrictInt | float
SourceFormat = Literal["parquet", "csv", "tsv", "json", "arrow", "delta", "iceberg", "jdbc", "postgres"]
SinkFormat = Literal["parquet", "csv", "tsv", "json", "arrow", "delta", "iceberg", "jdbc", "postgres"]

SOURCE_FORMATS = ("parquet", "csv", "tsv", "json", "arrow", "delta", "iceberg", "jdbc", "postgres")
KEPT_FORMATS = ("delta", "iceberg", "jdbc")
"""Formats that only Spark reads and writes, with packages of its own."""

MANY, INTERPOLATE = "many", "interpolate"
"""What ``join`` says beside the kinds of join."""


class _Section(BaseModel):
    """A table of the file, which has no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, arbitrary_types_allowed=True)


class Settings(_Section):
    """The table ``[pipeline]``."""

    name: Text = "pipeline"
    state: Text = ".juncture"


class OrderedBy(_Section):
    """In which order the rows of a source come, when it is read as a stream."""

    on: Text
    delay: StrictStr | StrictInt | float | Decimal | None = None
    descending: StrictBool = False


class SourceSection(_Section):
    """A table of ``[sources]``: where rows come from."""

    path: Text | list[Text] | None = None
    table: Text | None = None
    format: SourceFormat | None = None
    types: dict[Text, Text] = {}
    header: StrictBool = True
    delimiter: StrictStr = ","
    nulls: list[StrictStr] = []
    all_text: StrictBool = False
    union_by_name: StrictBool = False
    options: dict[Text, Option] = {}
    order: OrderedBy | list[OrderedBy] | None = None
    stream: StrictBool | None = None
    changes: Text | None = None

    @property
    def is_live(self) -> bool:
        """Whether what changes of it can be had."""
        return self.changes is not None or self.format == "postgres"

    @property
    def paths(self) -> list[str]:
        """The paths, of which there may be one."""
        return [self.path] if isinstance(self.path, str) else list(self.path or ())


class JoinStep(_Section):
    """A step that joins two tables, with the arguments of its spec."""

    left: Text
    right: Text
    spec: Spec
    algorithm: StrictStr = "auto"

    @property
    def inputs(self) -> list[str]:
        """What it reads."""
        return [self.left, self.right]


class ManyTable(_Section):
    """A table that a step joins to a spine."""

    right: Text
    shown: Right


class ManyStep(_Section):
    """A step that joins several tables to one."""

    left: Text
    tables: dict[str, ManyTable]

    @property
    def inputs(self) -> list[str]:
        """What it reads."""
        return [self.left, *(each.right for each in self.tables.values())]


class InterpolateStep(_Section):
    """A step that puts values between rows."""

    left: Text
    right: Text
    arguments: Mapping[str, Any]

    @property
    def inputs(self) -> list[str]:
        """What it reads."""
        return [self.left, self.right]


class GridSection(_Section):
    """The rows of a grid, in place of those that they are made from."""

    every: StrictStr | StrictInt | float | Decimal
    on: Text = "ts"
    by: Text | list[Text] = []
    start: StrictStr | StrictInt | datetime | date | float | None = None
    end: StrictStr | StrictInt | datetime | date | float | None = None


class Derived(_Section):
    """A step that makes rows of those of one table, in Spark's SQL."""

    from_: Text = Field(alias="from")
    filter: Text | None = None
    by: Text | list[Text] = []
    agg: dict[Text, Text] | None = None
    select: list[Text] | dict[Text, Text] | None = None
    distinct: StrictBool = False
    grid: GridSection | None = None

    @property
    def inputs(self) -> list[str]:
        """What it reads."""
        return [self.from_]

    @property
    def keys(self) -> list[str]:
        """The columns that it groups by."""
        return [self.by] if isinstance(self.by, str) else list(self.by)


Step: TypeAlias = JoinStep | ManyStep | InterpolateStep | Derived


class AcceptedRange(_Section):
    """The least and the greatest that is accepted."""

    min: StrictInt | None = None
    max: StrictInt | None = None


class DistanceLimits(_Section):
    """The greatest distances of matches that are accepted."""

    p50: StrictStr | StrictInt | float | None = None
    p90: StrictStr | StrictInt | float | None = None
    p99: StrictStr | StrictInt | float | None = None
    max: StrictStr | StrictInt | float | None = None


class Check(_Section):
    """A table of ``[[checks]]``: what is expected of a source or a step."""

    of: Text
    table: Text | None = None
    rows: AcceptedRange | None = None
    unique: Text | list[Text] = []
    not_null: Text | list[Text] = []
    match_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    distance: StrictStr | StrictInt | float | DistanceLimits | None = None
    leaked: StrictInt | None = None
    on_failure: Literal["fail", "warn"] = "fail"


class SinkSection(_Section):
    """A table of ``[sinks]``: where rows go."""

    from_: Text = Field(alias="from")
    path: Text | None = None
    table: Text | None = None
    format: SinkFormat | None = None
    mode: Literal["error", "overwrite", "append"] = "error"
    partition_by: Text | list[Text] = []
    options: dict[Text, Option] = {}
    checkpoint: Text | None = None
    changes: Text | None = None
    key: Text | list[Text] = []

    @property
    def is_live(self) -> bool:
        """Whether it takes what changes of its rows."""
        return self.changes is not None or self.format == "postgres"

    @property
    def keys(self) -> list[str]:
        """The columns that tell its rows apart."""
        return [self.key] if isinstance(self.key, str) else list(self.key)

    @property
    def partitions(self) -> list[str]:
        """The columns that folders stand for."""
        return [self.partition_by] if isinstance(self.partition_by, str) else list(self.partition_by)


class File(_Section):
    """A whole file."""

    pipeline: Settings = Settings()
    parameters: dict[Text, Any] = {}
    spark: dict[Text, Option] = {}
    sources: Annotated[dict[Text, SourceSection], Field(min_length=1)]
    steps: dict[Text, Step] = {}
    checks: list[Check] = []
    sinks: dict[Text, SinkSection] = {}
