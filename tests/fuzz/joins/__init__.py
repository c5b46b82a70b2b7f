"""Joins of tables, on each engine and by each algorithm, held to the definition by brute force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.joins.cases import Case, random_case
from fuzz.joins.facts import facts
from fuzz.joins.judge import judge, run_in_process
from fuzz.joins.script import script
from fuzz.joins.smaller import smaller
from fuzz.kind import Kind, Outcome
from juncture.planner.decision import Engine

__all__ = ["JOINS"]


def judge_on(engine: Engine) -> Callable[[Case, Path], Outcome]:
    """Return what judges cases on an engine."""
    if engine == "local":
        return lambda case, folder: judge(case, folder, run_in_process)
    from fuzz.joins.spark import run_on_spark

    run = run_on_spark()
    return lambda case, folder: judge(case, folder, run)


def label(case: Case) -> str:
    return f"{case.join.kind} {case.algorithm}"


JOINS = Kind(random_case, judge_on, smaller, script, label, facts, engines=("local", "spark"))
