"""A plan as one self-contained page, with what happened if it has run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from juncture.planner.decision import Decision
from juncture.planner.explain.meaning import conditions_of, meaning_of
from juncture.planner.explain.text import FACTS, facts_of, happened, plan_words, ranked_options, title, verdict
from juncture.planner.report import Measured
from juncture.runtime.progress import Phase
from juncture.spec.schema import SIDES, Side

_LEAST_S = 0.001  # smaller costs are drawn with this length, because a logarithmic axis cannot show zero

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --line: #d5dae1; --quiet: #566173; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --paper: #14181f; --line: #3a4352; --quiet: #a3aebf; }
}
body { margin: 2rem auto; max-width: 56rem; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin-bottom: .25rem; }
h2 { font-size: 1.1rem; margin-top: 2rem; }
figure { margin: 1rem 0; overflow-x: auto; }
figcaption, th { color: var(--quiet); }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .75rem .35rem 0; text-align: left; vertical-align: top; }
th { font-weight: normal; white-space: nowrap; }
tr.chosen { font-weight: 600; }
td small { display: block; color: var(--quiet); }
.flow { display: flex; align-items: center; gap: 3rem; }
.flow > div { flex: 1; min-width: 10rem; position: relative; }
.flow > div + div::before { content: "→"; position: absolute; left: -2rem; top: calc(50% - .75em); }
.box { border: 1.5px solid var(--quiet); border-radius: 4px; padding: .5rem .75rem; font-size: .85rem; }
.box + .box { margin-top: 2rem; }
.box.chosen { border-color: #d1495b; }
.box span { display: block; }
.bar { height: .5rem; border-radius: 2px; background: #8d99ae; margin: .25rem 0; }
.chosen .bar { background: #d1495b; }
.track { position: relative; height: 1.5rem; }
.track .bar { position: absolute; min-width: 1px; background: #d1495b; }
"""


def plan_page(plan: Decision, run: Measured | None = None) -> str:
    """Return a page of HTML that needs no network."""
    heading, meaning = escape(f"{title(plan)}: {plan.algorithm}"), meaning_of(plan.join)
    parts = [
        f"<h1>{heading}</h1>",
        f"<p>{escape(meaning[:1].upper() + meaning[1:])}.</p>",
        figure(_flow(plan, run), "Both sides, the algorithm and the output"),
        rows_table((name, text) for name, text in plan_words(plan) if name not in ("left", "right")),
        "<h2>What is known</h2>",
        _facts(plan),
        "<h2>What was weighed</h2>",
        _weighed(plan),
    ]
    if run is not None:
        parts += ["<h2>What happened</h2>", rows_table(happened(plan, run))]
        parts += [_timeline(run.phases)]
    return page(heading, parts)


def page(heading: str, parts: Iterable[str]) -> str:
    """Return a page of its parts, whose heading is HTML as they are."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _flow(plan: Decision, run: Measured | None) -> str:
    """Return both sides, what is done with them, and the result, each a box with lines of text."""
    left = _side("left", plan, None if run is None else run.left_rows)
    right = _side("right", plan, None if run is None else run.right_rows)
    expected = plan.choice.output_rows.value
    out = "rows not known yet" if expected is None else f"about {expected:,} rows"
    out = out if run is None else f"{run.output_rows:,} rows"
    step = _box(plan.algorithm, plan.choice.chosen.summary, chosen=True)
    output = _box("output", f"{plan.join.how} join", out)
    return f'<div class="flow"><div>{left}{right}</div><div>{step}</div><div>{output}</div></div>'


def _box(heading: str, *lines: str, chosen: bool = False) -> str:
    texts = "".join(f"<span>{escape(line)}</span>" for line in lines)
    return f'<div class="box{" chosen" * chosen}"><b>{escape(heading)}</b>{texts}</div>'


def _side(side: Side, plan: Decision, counted: int | None) -> str:
    rows = plan.stats.of(side).rows if counted is None else counted
    by = plan.join.left_by if side == "left" else plan.join.right_by
    # What a predicate has equal is no column of one side.
    equal = [condition for kind, condition in conditions_of(plan.join) if kind == "key"]
    keys = f"by {', '.join(by)}" if by else f"where {' and '.join(equal)}" if equal else "no key"
    return _box(side, "rows not counted" if rows is None else f"{rows:,} rows", keys)


def _facts(plan: Decision) -> str:
    """Return what is known of both sides, each figure above its source."""
    sides = [facts_of(plan, plan.stats.of(side)) for side in SIDES]
    rows = "".join(
        f'<tr><th scope="row">{heading}</th>{"".join(_fact(*side.get(name, ("", ""))) for side in sides)}</tr>'
        for name, heading in FACTS.items()
        if any(name in side for side in sides)
    )
    if not rows:
        return "<p>Nothing yet: neither side has been looked at.</p>"
    return f"<table><thead><tr><td></td><th>left</th><th>right</th></tr></thead><tbody>{rows}</tbody></table>"


def _fact(fact: str, source: str) -> str:
    return f"<td>{escape(fact)}{f'<small>{escape(source)}</small>' if source else ''}</td>"


def _weighed(plan: Decision) -> str:
    """Return what each algorithm should cost, with a bar on a logarithmic scale, or why it is excluded."""
    options = ranked_options(plan)
    able = [each for each in options if each.excluded is None and each.cost_s is not None]
    costs = {each.algorithm: max(each.cost_s or 0.0, _LEAST_S) for each in able}
    least = min(costs.values(), default=_LEAST_S) / 2
    widest = math.log(max(costs.values(), default=_LEAST_S) / least)
    rows = ""
    for option in options:
        mark = ' class="chosen"' if option.algorithm == plan.algorithm else ""
        bar = ""
        if option.algorithm in costs:
            bar = f'<div class="bar" style="width: {math.log(costs[option.algorithm] / least) / widest:.0%}"></div>'
        rows += f'<tr{mark}><th scope="row">{escape(option.algorithm)}</th><td>{bar}{escape(verdict(option))}</td></tr>'
    return f"<table><tbody>{rows}</tbody></table>"


def _timeline(phases: Sequence[Phase]) -> str:
    """Return what was done when, a row for each kind of phase."""
    end_s = max((each.start_s + each.duration_s for each in phases), default=0.0) or 1.0
    bars: dict[str, str] = {}
    for each in phases:
        style = f"left: {each.start_s / end_s:.2%}; width: {each.duration_s / end_s:.2%}"
        bar = f'<div class="bar" title="{each.duration_s:.3f} s" style="{style}"></div>'
        bars[each.name] = bars.get(each.name, "") + bar
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td><div class="track">{each}</div></td></tr>'
        for name, each in bars.items()
    )
    return figure(f"<table><tbody>{rows}</tbody></table>", f"When the join did what, from 0 to {end_s:.3f} s")


def figure(drawing: str, caption: str) -> str:
    """Return a drawing with what it shows below it."""
    return f'<figure aria-label="{escape(caption)}">{drawing}<figcaption>{escape(caption)}</figcaption></figure>'


def rows_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return pairs of a heading and a text as a table."""
    cells = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in rows)
    return f"<table><tbody>{cells}</tbody></table>"
