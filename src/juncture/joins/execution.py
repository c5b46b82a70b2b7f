"""What all join functions share: the arguments that say how a join runs, and the type of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, cast, overload

from juncture.errors import SpecError, did_you_mean
from juncture.planner.statistics import Stats
from juncture.spec.elsewhere import argument_hint

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyspark.sql
    from pyspark.sql import SparkSession


class Execution(TypedDict, total=False):
    """How a join runs: keyword arguments of every join function and of `juncture.plan`.

    None of them changes the result, except for the order of its rows (``maintain_order``). Use this type to pass them
    on: ``def enrich(table, **execution: Unpack[juncture.Execution])``.

    Attributes
    ----------
    algorithm
        ``"auto"`` (default) lets the planner choose among the algorithms in ``explain()``. All algorithms return the
        same result.
    spark
        A Spark session. Paths are then joined on Spark, where tasks read the files.
    lazy
        Whether to forbid Spark jobs during planning. Hot keys are then not detected.
    memory
        The memory limit of an in-process join in bytes or such as ``"2GB"``, apart from the returned table. None
        (default) means a share of this process's memory. Further rows are spilled to disk, to the folder in ``TMPDIR``.
    maintain_order
        ``"left"`` (default) returns the rows of an in-process join in the order of the left rows. None returns them in
        any order, which saves a sort in joins that buffer the left table or spill. On Spark, rows have no order.
    stats
        Known statistics of the inputs. These are not measured.

    Examples
    --------
    >>> import juncture as jn
    >>> import pyarrow as pa
    >>> execution: jn.Execution = {"memory": "1GB", "maintain_order": None}
    >>> table = pa.table({"ts": [1, 2]})
    >>> jn.join(table, table, on="ts", **execution).num_rows
    2
    """

    algorithm: str
    spark: SparkSession | None
    lazy: bool
    memory: str | int | None
    maintain_order: Literal["left"] | None
    stats: Stats | None


_NAMES = Execution.__optional_keys__


def check_execution(function: Callable[..., Any], arguments: Mapping[str, object]) -> None:
    """Refuse unknown arguments of a function that takes `Execution`."""
    if not arguments.keys() <= _NAMES:
        refuse_unknown(function, {name: arguments[name] for name in arguments if name not in _NAMES})


def refuse_unknown(function: Callable[..., Any], unknown: Mapping[str, object]) -> None:
    """Refuse arguments of other libraries and misspelled names, with a hint."""
    for name, value in unknown.items():
        names = list(signature(function).parameters)
        # The last parameter collects the arguments that the function does not name itself.
        if names.pop() == "execution":
            names += sorted(_NAMES)
        hint = argument_hint(name, names) or did_you_mean(name, names)
        raise SpecError(f"{function.__name__}() has no argument {name}={value!r}. {hint}", name="JN-ARGUMENT-UNKNOWN")


Frame = TypeVar("Frame", "pd.DataFrame", "pl.DataFrame", "pl.LazyFrame", "pyspark.sql.DataFrame")
"""Left tables whose type the result has. Type checkers do not know the result for other inputs, such as paths."""

Arguments = ParamSpec("Arguments")


class JoinFunction(Protocol[Arguments]):
    """A function that joins two tables."""

    @overload
    def __call__(self, left: Frame, right: Any, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Frame: ...
    @overload
    def __call__(self, left: Any, right: Any, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Any: ...


def returns_left_type(function: Callable[Concatenate[Any, Any, Arguments], Any]) -> JoinFunction[Arguments]:
    """Declare that a function returns a table of the type of the left one. The function itself is unchanged."""
    return cast("JoinFunction[Arguments]", function)
