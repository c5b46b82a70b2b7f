"""What a plan says of itself, in its three forms."""

from __future__ import annotations

import json
import re
import sys
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pyarrow as pa
import pytest

import juncture as jn
from juncture.errors import PlanError, SpecError
from juncture.planner.decision import Option
from juncture.planner.explain.text import verdict

TABLE = pa.table({"ts": [1, 2, 3], "end": [2, 3, 4], "k<&>": ["a", "a", "b"]})
SPECS = {
    "asof": jn.Asof(on="ts", by="k<&>"),
    "range": jn.Range(on="ts", lower=Decimal(-1), upper=0),
    "overlap": jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end")),
    "where": jn.Where("l.ts < r.end OR l.end = r.ts"),
    "equi": jn.Equi(on="ts"),
}


class Balance(HTMLParser):
    """Counts how elements are opened and closed, and collects where they point to."""

    EMPTY = ("meta", "br", "path", "line", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.fixture(params=SPECS, ids=str)
def plan(request: pytest.FixtureRequest) -> Any:
    return jn.plan(TABLE, TABLE, SPECS[request.param])


def test_json_says_what_the_text_says(plan: Any) -> None:
    facts, text = json.loads(plan.explain(format="json")), plan.explain()
    assert set(facts) == {
        *("version", "title", "engine", "meaning", "conditions", "spec", "algorithm", "summary", "reason"),
        *("stats", "expected", "resources", "budget", "details", "jobs", "options"),
    }
    for said in (facts["title"], facts["meaning"], f"{facts['algorithm']}: {facts['summary']}", facts["reason"]):
        assert said in text
    assert facts["stats"]["left"]["rows"] == 3
    assert facts["stats"]["left"]["provenance"]["rows"] == "Arrow table"
    assert [each["algorithm"] for each in facts["options"] if each["chosen"]] == [plan.algorithm]
    assert re.findall(r"^ {4}[* ] (\w+) ", text, re.M) == [each["algorithm"] for each in facts["options"]]
    assert facts["spec"] == plan.join.spec.to_dict()
    for part, condition in facts["conditions"]:
        assert re.search(rf"^  {part} +{re.escape(condition)}$", text, re.M)


CONDITIONS = [
    (jn.Asof(left_on="ts", right_on="end", by="k<&>"), [("key", "left k<&> = right k<&>")]),
    (jn.Range(on="ts", lower=-1, upper=0, closed="right"), [("band", "left ts - 1 < right ts <= left ts")]),
    (jn.Range(on="ts", lower=None, upper="end"), [("inequality", "right ts <= left ts + end")]),
    (
        jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", None), by="k<&>"),
        [("key", "left k<&> = right k<&>"), ("overlap", "right ts < left end")],
    ),
    (
        jn.Overlap(left_interval=("ts", "end"), right_interval=("ts", "end"), closed="both"),
        [("overlap", "left ts <= right end AND right ts <= left end")],
    ),
    (
        jn.Where("l.ts = r.ts AND l.end > r.end - 3 AND l.end < r.end + 10 AND l.ts * r.ts > 5"),
        [("key", "l.ts = r.ts"), ("band", "l.end - 10 < r.end < l.end + 3"), ("residual", "l.ts * r.ts > 5")],
    ),
    (jn.Equi(on="ts", where="l.end < r.end"), [("key", "left ts = right ts"), ("residual", "l.end < r.end")]),
]


@pytest.mark.parametrize(("spec", "expected"), CONDITIONS)
def test_a_plan_says_what_a_pair_of_rows_has_to_satisfy(spec: Any, expected: list[tuple[str, str]]) -> None:
    conditions = json.loads(jn.plan(TABLE, TABLE, spec).explain(format="json"))["conditions"]
    # Predicates also say what each side has to satisfy alone, and why there is a residual.
    assert [tuple(each) for each in conditions if "filter" not in each[0] and each[0] != "note"] == expected


def test_json_says_why_an_algorithm_is_ruled_out() -> None:
    stats = jn.Stats(
        right=jn.SideStats(rows=10**9, row_bytes=20, on_range=(Decimal("0.5"), 9), provenance={"rows": "given"})
    )
    plan = jn.plan(TABLE.to_reader(), TABLE.to_reader(), SPECS["equi"], stats=stats)
    facts = json.loads(plan.explain(format="json"))
    [refusal] = {each["excluded"] for each in facts["options"]} - {None}
    assert "available" in refusal
    assert facts["stats"]["left"]["rows"] is None
    assert facts["stats"]["right"]["on_range"] == ["0.5", 9]
    assert facts["stats"]["right"]["bytes"] == 20 * 10**9


def test_the_page_is_whole_and_needs_no_network(plan: Any) -> None:
    page = plan.explain(format="html")
    balance = Balance()
    balance.feed(page)
    assert not balance.open
    assert not balance.links
    assert "<script" not in page
    assert page.count('class="bar"') == sum(
        each.cost_s is not None and not each.excluded for each in plan.choice.options
    )
    assert "k<&>" not in page
    assert plan.algorithm in page
    assert "prefers-color-scheme: dark" in page


def test_the_page_has_a_column_for_each_side_and_a_source_for_each_figure() -> None:
    plan = jn.plan(TABLE, TABLE.slice(1), jn.Where("l.ts = r.ts AND l.ts > r.ts - 5"))
    page = plan.explain(format="html")
    assert "<th>left</th><th>right</th>" in page
    assert f"<td>{TABLE.num_rows:,} rows<small>Arrow table</small></td>" in page
    # What a predicate has equal stands in the drawing, and costs are no more exact than they are.
    assert "where l.ts = r.ts" in page
    assert "under 0.1 s</td>" in page


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(SpecError, match=r"format='htm' is unknown. Expected one of 'text', 'json', 'html'. Did you"):
        jn.plan(TABLE, TABLE, SPECS["asof"]).explain(format="htm")


@pytest.mark.parametrize("module", ["altair", "vl_convert"])
def test_what_draws_is_asked_for_where_it_is_missing(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    report = jn.plan_many(TABLE, {"same": jn.Right(TABLE, SPECS["asof"], prefix="own ")}).match_report()
    with pytest.raises(PlanError, match=rf"A chart needs '{module}' .* pip install 'juncture\[html\]'"):
        report.export(format="html")
    assert report.export(format="json")


@pytest.mark.parametrize(
    ("cost_s", "expected"),
    [
        (0.04, "under 0.1 s"),
        (1.94, "about 1.9 s"),
        (12.6, "about 13 s"),
        (6000.8, "about 6,000 s"),
        (47_123, "about 47,000 s"),
    ],
)
def test_a_cost_has_no_more_digits_than_a_formula_is_good_for(cost_s: float, expected: str) -> None:
    assert verdict(Option(algorithm="probe", summary="it", cost_s=cost_s)) == expected
