"""The sections and keys of a pipeline file, with their types.

Pydantic validates types, unknown keys and missing keys. Join arguments are passed to specs, which validate themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import PydanticCustomError

from juncture.errors import PlanError
from juncture.pipeline.connector import ChangeFolders, Connector, ConnectorTable, connector_named, connector_names
from juncture.spec.kinds import Spec
from juncture.spec.many import Right
from juncture.spec.spines import Interpolation

if TYPE_CHECKING:
    import pyarrow as pa

Text = Annotated[StrictStr, Field(min_length=1)]


def _as_list(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise PydanticCustomError("names_type", "neither text nor a list")
    return [value] if isinstance(value, str) else value


Texts = Annotated[list[Text], BeforeValidator(_as_list)]
"""One text or several."""

Number: TypeAlias = StrictInt | float | Decimal
Option: TypeAlias = StrictStr | StrictBool | StrictInt | float

SPARK_ONLY_FORMATS = ("delta", "iceberg", "jdbc")
"""Formats that only Spark reads and writes, with additional packages."""

_FORMATS = ("parquet", "csv", "tsv", "json", "arrow", *SPARK_ONLY_FORMATS)  # formats without connectors

MANY, INTERPOLATE = "many", "interpolate"  # values of ``join`` besides the kinds of joins


class _Section(BaseModel):
    """A section without other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False, arbitrary_types_allowed=True)


class Settings(_Section):
    """The section ``[pipeline]``."""

    name: Text = "pipeline"
    state: Text = ".juncture"


def _known_format(name: str) -> str:
    try:
        is_known = name in _FORMATS or connector_named(name) is not None
    except PlanError as error:
        raise PydanticCustomError("connector_error", "{problem}", {"problem": error.message}) from error
    if not is_known:
        expected = ", ".join(map(repr, [*_FORMATS, *connector_names()]))
        raise PydanticCustomError("literal_error", "unknown format", {"expected": f"one of {expected}"})
    return name


class _TableSection(_Section):
    """A source or sink, which may have changes. Relative paths start at its folder, that of the pipeline."""

    _folder: Path = PrivateAttr(default=Path())
    table: Text | None = None
    format: Annotated[StrictStr, AfterValidator(_known_format)] | None = None
    options: dict[Text, Option] = {}
    changes: Text | None = None

    @property
    def connector(self) -> Connector | None:
        return None if self.format is None or self.format in _FORMATS else connector_named(self.format)

    @property
    def change_connector(self) -> Connector | None:
        """The connector of the changes; None if the section has none."""
        return ChangeFolders() if self.changes is not None else self.connector

    @property
    def folder(self) -> Path:
        """The folder of the pipeline."""
        return self._folder

    def placed_in(self, folder: Path) -> Self:
        """Return the section of a pipeline in a folder."""
        section = self.model_copy()
        section._folder = folder
        return section

    def _absolute(self, path: str) -> str:
        return path if "://" in path else str(self._folder / Path(path).expanduser())

    def connected(self, name: str) -> ConnectorTable:
        """Return the table of the section for its connector."""
        return ConnectorTable(name, self.table or "", self.options, self.keys)

    def connected_changes(self, name: str, schema: pa.Schema | None = None) -> ConnectorTable:
        """Return the table of the changes for their connector."""
        table = (self.table or "") if self.changes is None else self._absolute(self.changes)
        return ConnectorTable(name, table, self.options, self.keys, schema)

    @property
    def keys(self) -> tuple[str, ...]:
        return ()


class OrderedBy(_Section):
    """The order of a source's rows when it is read as a stream."""

    on: Text
    delay: StrictStr | StrictInt | float | Decimal | None = None
    descending: StrictBool = False


class SourceSection(_TableSection):
    """A section of ``[sources]``."""

    path: Texts | None = None
    types: dict[Text, Text] = {}
    header: StrictBool = True
    delimiter: StrictStr = ","
    nulls: list[StrictStr] = []
    all_text: StrictBool = False
    union_by_name: StrictBool = False
    version: StrictInt | None = None
    order: OrderedBy | list[OrderedBy] | None = None
    stream: StrictBool | None = None

    @property
    def paths(self) -> list[str]:
        """The paths, none for a table. Local ones are absolute."""
        return [self._absolute(path) for path in self.path or ()]


class _PairStep(_Section):
    """A step over two tables."""

    left: Text
    right: Text

    @property
    def inputs(self) -> list[str]:
        return [self.left, self.right]


class JoinStep(_PairStep):
    """A step that joins two tables, with the arguments of its spec."""

    spec: Spec
    algorithm: StrictStr = "auto"


class ManyTable(_Section):
    """A table that a step joins to a spine."""

    right: Text
    definition: Right


class ManyStep(_Section):
    """A step that joins several tables to one."""

    left: Text
    tables: dict[str, ManyTable]

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
        return [self.left, *(each.right for each in self.tables.values())]


class InterpolateStep(_PairStep):
    """A step that interpolates between rows."""

    arguments: Mapping[str, Any]
    spec: Interpolation


class GridSection(_Section):
    """The grid of a step."""

    every: StrictStr | StrictInt | float | Decimal
    on: Text = "ts"
    by: Texts = []
    start: StrictStr | StrictInt | datetime | date | float | None = None
    end: StrictStr | StrictInt | datetime | date | float | None = None


class Derived(_Section):
    """A step that derives rows from one table, in Spark SQL."""

    from_: Text = Field(alias="from")
    filter: Text | None = None
    by: Texts = []
    agg: dict[Text, Text] | None = None
    select: list[Text] | dict[Text, Text] | None = None
    distinct: StrictBool = False
    grid: GridSection | None = None

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
        return [self.from_]


class SqlStep(_Section):
    """A query in DuckDB's SQL over several sources and steps."""

    from_: Texts = Field(alias="from")
    sql: Text

    @property
    def inputs(self) -> list[str]:
        """The inputs of the step."""
        return self.from_


Step: TypeAlias = JoinStep | ManyStep | InterpolateStep | Derived | SqlStep


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
    unique: Texts = []
    not_null: Texts = []
    min_match_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    max_distance: StrictStr | StrictInt | float | DistanceLimits | None = None
    max_leaked: StrictInt | None = None
    on_failure: Literal["error", "warn"] = "error"


class SinkSection(_TableSection):
    """A section of ``[sinks]``."""

    from_: Text = Field(alias="from")
    path: Text | None = None
    mode: Literal["error", "overwrite", "append"] = "error"
    partition_by: Texts = []
    checkpoint: Text | None = None
    key: Texts = []

    @property
    def is_here(self) -> bool:
        """Whether it is a file or folder of the file system, local or mounted, and no URI or table."""
        return self.path is not None and "://" not in self.path and self.format not in SPARK_ONLY_FORMATS

    @property
    def target_path(self) -> Path:
        """The path of the file or folder."""
        return Path(self._absolute(self.path or ""))

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row."""
        return tuple(self.key)


class File(_Section):
    """A pipeline file."""

    pipeline: Settings = Settings()
    parameters: dict[Text, Any] = {}
    spark: dict[Text, Option] = {}
    sources: Annotated[dict[Text, SourceSection], Field(min_length=1)]
    steps: dict[Text, Step] = {}
    checks: list[Check] = []
    sinks: dict[Text, SinkSection] = {}
    folder: Path = Path()  # the folder of the file, where relative paths start; no key of the file

    @property
    def state(self) -> Path:
        """The folder of the state."""
        return self.folder / self.pipeline.state

    def checkpoint(self, sink: str) -> Path:
        """Return the checkpoint folder of a sink's stream."""
        return self.folder / (self.sinks[sink].checkpoint or Path(self.pipeline.state, "checkpoints", sink))
