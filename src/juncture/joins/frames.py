"""The types of join functions: the result has the type of the left table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyspark.sql

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
