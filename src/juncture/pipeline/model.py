"""The sections and keys of a pipeline file, with their types.

Pydantic validates types, unknown keys and missing keys. Join arguments are passed to specs, which validate themselves.
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
SPARK_ONLY_FORMATS = ("delta", "iceberg", "jdbc")
"""Formats that only Spark reads and writes, with additional packages."""

MANY, INTERPOLATE = "many", "interpolate"
"""Values of ``join`` besides the kinds of joins."""


class _Section(BaseModel):
    """A section without other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, arbitrary_types_allowed=True)


class Settings(_Section):
    """The section ``[pipeline]``."""

    name: Text = "pipeline"
    state: Text = ".juncture"


class OrderedBy(_Section):
    """The order of a source's rows when it is read as a stream."""

    on: Text
    delay: StrictStr | StrictInt | float | Decimal | None = None
    descending: StrictBool = False


class SourceSection(_Section):
    """A section of ``[sources]``."""

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
        """Whether the source has changes."""
        return self.changes is not None or self.format == "postgres"

    @property
    def paths(self) -> list[str]:
        """The paths as a list."""
        return [self.path] if isinstance(self.path, str) else list(self.path or ())


class JoinStep(_Section):
    """A step that joins two tables, with the arguments of its spec."""

    left: Text
    right: Text
    spec: Spec
    algorithm: StrictStr = "auto"

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
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
        """The inputs of the step."""
        return [self.left, *(each.right for each in self.tables.values())]


class InterpolateStep(_Section):
    """A step that interpolates between rows."""

    left: Text
    right: Text
    arguments: Mapping[str, Any]

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
        return [self.left, self.right]


class GridSection(_Section):
    """The grid of a step."""

    every: StrictStr | StrictInt | float | Decimal
    on: Text = "ts"
    by: Text | list[Text] = []
    start: StrictStr | StrictInt | datetime | date | float | None = None
    end: StrictStr | StrictInt | datetime | date | float | None = None


class Derived(_Section):
    """A step that derives rows from one table, in Spark SQL."""

    from_: Text = Field(alias="from")
    filter: Text | None = None
    by: Text | list[Text] = []
    agg: dict[Text, Text] | None = None
    select: list[Text] | dict[Text, Text] | None = None
    distinct: StrictBool = False
    grid: GridSection | None = None

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
        return [self.from_]

    @property
    def keys(self) -> list[str]:
        """The group-by columns."""
        return [self.by] if isinstance(self.by, str) else list(self.by)


Step: TypeAlias = JoinStep | ManyStep | InterpolateStep | Derived


class AcceptedRange(_Section):
    """The accepted minimum and maximum."""

    min: StrictInt | None = None
    max: StrictInt | None = None


class DistanceLimits(_Section):
    """The accepted maximum distances of matches."""

    p50: StrictStr | StrictInt | float | None = None
    p90: StrictStr | StrictInt | float | None = None
    p99: StrictStr | StrictInt | float | None = None
    max: StrictStr | StrictInt | float | None = None


class Check(_Section):
    """A section of ``[[checks]]``."""

    from_: Text = Field(alias="from")
    table: Text | None = None
    rows: AcceptedRange | None = None
    unique: Text | list[Text] = []
    not_null: Text | list[Text] = []
    min_match_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    max_distance: StrictStr | StrictInt | float | DistanceLimits | None = None
    max_leaked: StrictInt | None = None
    on_failure: Literal["error", "warn"] = "error"


class SinkSection(_Section):
    """A section of ``[sinks]``."""

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
        """Whether the sink receives changes."""
        return self.changes is not None or self.format == "postgres"

    @property
    def keys(self) -> list[str]:
        """The columns that identify a row."""
        return [self.key] if isinstance(self.key, str) else list(self.key)

    @property
    def partitions(self) -> list[str]:
        """The partition columns."""
        return [self.partition_by] if isinstance(self.partition_by, str) else list(self.partition_by)


class File(_Section):
    """A pipeline file."""

    pipeline: Settings = Settings()
    parameters: dict[Text, Any] = {}
    spark: dict[Text, Option] = {}
    sources: Annotated[dict[Text, SourceSection], Field(min_length=1)]
    steps: dict[Text, Step] = {}
    checks: list[Check] = []
    sinks: dict[Text, SinkSection] = {}
