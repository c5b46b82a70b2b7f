"""What type checkers and editors know of joins is what there is; `typed_joins.py` shows that they know it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

import pytest

import juncture as jn
from juncture.joins import arguments

JOINS = {
    jn.join_asof: arguments.AsofArguments,
    jn.join_range: arguments.RangeArguments,
    jn.join_overlap: arguments.OverlapArguments,
    jn.join_where: arguments.WhereArguments,
    jn.join: arguments.EquiArguments,
}


@pytest.mark.parametrize(("join", "typed"), JOINS.items())
def test_what_a_checker_knows_is_what_there_is(join: Callable[..., Any], typed: Any) -> None:
    there = {name: each for name, each in signature(join).parameters.items() if each.kind is Parameter.KEYWORD_ONLY}
    wanted = {
        name: f"Required[{each.annotation}]" if each.default is Parameter.empty else each.annotation
        for name, each in there.items()
    }
    assert {name: each.__forward_arg__ for name, each in typed.__annotations__.items()} == wanted
