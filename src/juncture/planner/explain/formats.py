"""What a plan says, as text, JSON or a page; with what happened, if it has run."""

from __future__ import annotations

import json

from juncture.planner.decision import Decision
from juncture.planner.explain.facts import plan_facts
from juncture.planner.explain.html import plan_page
from juncture.planner.explain.text import plan_text
from juncture.planner.run import Measured
from juncture.spec.arguments import check_choice


def explain(plan: Decision, form: str, run: Measured | None = None) -> str:
    """Return what a plan says, in one of three forms."""
    check_choice("format", form, ("text", "json", "html"))
    if form == "json":
        # Ends of `on_range` may be decimals.
        return json.dumps(plan_facts(plan, run), indent=2, default=str)
    return plan_page(plan, run) if form == "html" else plan_text(plan, run)
