"""Commands whose options are put together, rather than written down one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def with_parameters(function: Function, parameters: Iterable[Parameter], doc: str | None) -> Function:
    """Return a function of any keywords that shows parameters and a docstring: Typer makes options of what is shown."""
    parameters = list(parameters)
    vars(function)["__signature__"] = Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__doc__ = doc
    return function
