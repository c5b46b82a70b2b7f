"""Engines that join in-process, as contestants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from juncture_benchmarks.harness import Contestant

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Engines", "engine_contestant"]

Engines = Mapping[str, tuple[str, str, Callable[..., Any]]]
"""Title, package and function of each engine."""


def engine_contestant(
    engines: Engines, name: str, trial: str, task: DataclassInstance, tiny: DataclassInstance
) -> Contestant:
    """Describe an engine that does a task, having warmed up on a tiny one.

    Parameters
    ----------
    engines, name
        Which of them.
    trial
        The function that makes its trial, as ``module:function``.
    task, tiny
        The task.
    """
    title, package, _ = engines[name]
    return Contestant(
        name=name,
        title=title,
        package=package,
        ours=name.startswith("juncture"),
        trial=trial,
        arguments={"engine": name, "task": asdict(task), "tiny": asdict(tiny)},
    )
