"""What a plan says, as text, JSON or a page; with what happened, if it has run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from juncture.planner.choose import kind_of
from juncture.planner.explain.facts import plan_facts, ranked_options
from juncture.planner.explain.text import happened, headline, plan_in_short, plan_words, verdict
from juncture.planner.plan import Plan
from juncture.planner.run import Run
from juncture.spec.arguments import check_choice

__all__ = ["explain", "in_a_line", "in_short"]


def in_short(plan: Plan) -> str:
    """Return the heart of what a plan says, in a few lines."""
    return "\n".join([headline(plan), *(f"  {heading:<7} {text}" for heading, text in plan_in_short(plan))])


def in_a_line(plan: Plan) -> str:
    """Return the same in one line."""
    return "; ".join([headline(plan), *(f"{heading} {text}" for heading, text in plan_in_short(plan))])


def explain(plan: Plan, form: str, run: Run | None = None) -> str:
    """Return what a plan says, in one of three forms.

    Raises
    ------
    SpecError
        If the form is not known.
    PlanError
        If what draws the page is not installed.
    """
    check_choice("format", form, ("text", "json", "html"))
    if form == "json":
        facts = plan_facts(plan)
        if run is not None:
            facts["run"] = {**asdict(run), "unknown": dict(run.unknown)}
        # Ends of an extent may be decimals.
        return json.dumps(facts, indent=2, default=str)
    if form == "html":
        from juncture.planner.explain.html import plan_page

        return plan_page(plan, run)
    return "\n".join(_lines(plan, run))


def _lines(plan: Plan, run: Run | None) -> Iterator[str]:
    kind = kind_of(plan.join.spec)
    yield f"{kind.title} {'in-process' if plan.engine == 'local' else 'on Spark'}"
    yield f"  meaning    {kind.meaning(plan.join)}"
    for heading, text in plan_words(plan):
        yield f"  {heading:<9}  {text}"
    yield "  weighed"
    options = ranked_options(plan)
    width = max(len(option.algorithm) for option in options)
    for option in options:
        mark = "*" if option.algorithm == plan.algorithm else " "
        yield f"    {mark} {option.algorithm:<{width}}  {verdict(option)}"
    if run is not None:
        yield "  what happened"
        for heading, text in happened(plan, run):
            yield f"    {heading:<9}  {text}"
