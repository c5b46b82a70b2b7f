"""Commands with computed options."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., object])


def with_parameters(function: Function, parameters: Iterable[Parameter], doc: str | None) -> Function:
    """Return a function with a signature and a docstring that Typer turns into options and help."""
    parameters = list(parameters)
    vars(function)["__signature__"] = Signature(parameters)
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__doc__ = doc
    return function
