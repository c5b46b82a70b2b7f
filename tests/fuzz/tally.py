"""What a run has seen: how many cases of each kind, what was refused, and what failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.types as pat

from fuzz.cases import Case
from fuzz.judge import Outcome

__all__ = ["Failure", "Refusal", "Tally"]


@dataclass
class Refusal:
    """A reason for which joins were refused: how often, and one of them."""

    count: int
    number: int
    message: str


@dataclass
class Failure:
    """A reason for which cases failed: which did, and some of them as scripts."""

    numbers: list[int] = field(default_factory=list)
    scripts: list[str] = field(default_factory=list)


@dataclass
class Tally:
    """What a run has seen."""

    statuses: Counter[str] = field(default_factory=Counter)
    seen: dict[str, Counter[str]] = field(default_factory=dict)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    def add(self, number: int, case: Case, outcome: Outcome) -> None:
        """Count a case. What failed is added by `fail`."""
        self.statuses[outcome.status] += 1
        if outcome.status == "refused":
            refusal = self.refusals.setdefault(outcome.signature, Refusal(0, number, outcome.detail))
            refusal.count += 1
            return
        for what, values in facts(case, outcome).items():
            self.seen.setdefault(what, Counter()).update(values)

    def fail(self, number: int, signature: str, script: str = "") -> None:
        """Note that a case failed, with its script if it was shrunk."""
        failure = self.failures.setdefault(signature, Failure())
        failure.numbers.append(number)
        failure.scripts += [script] if script else []

    def merge(self, other: Tally) -> None:
        """Add what another process has seen."""
        self.statuses.update(other.statuses)
        for what, counts in other.seen.items():
            self.seen.setdefault(what, Counter()).update(counts)
        for signature, refusal in other.refusals.items():
            known = self.refusals.setdefault(signature, Refusal(0, refusal.number, refusal.message))
            known.count += refusal.count
        for signature, failure in other.failures.items():
            found = self.failures.setdefault(signature, Failure())
            found.numbers += failure.numbers
            found.scripts += failure.scripts

    def summary(self) -> str:
        """Return all of it as text."""
        lines = []
        for what, counts in self.seen.items():
            shown = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
            lines.append(f"{what}: {shown}")
        lines += [f"\nrefused {self.statuses['refused']:,}:"] if self.refusals else []
        for signature, refusal in sorted(self.refusals.items(), key=lambda item: -item[1].count):
            lines.append(f"  {refusal.count:,} x {signature}")
            lines.append(f"      case {refusal.number}: {refusal.message[:300]}")
        for signature, failure in self.failures.items():
            shown = ", ".join(map(str, failure.numbers[:8]))
            lines.append(f"\nFAILED {len(failure.numbers):,} x {signature} (cases {shown})")
        return "\n".join(lines)


def facts(case: Case, outcome: Outcome) -> dict[str, list[str]]:
    """Return what there is to count of a case that was run, by what it is about."""
    join = case.join
    arguments = join.arguments
    how = f"{arguments.get('how')}, aggregated" if "agg" in arguments else str(arguments.get("how"))
    types = {
        side: {column.name: type_name(column.type) for column in getattr(join, side).columns}
        for side in ("left", "right")
    }
    roles = {side: roles_of(arguments, side) for side in types}
    found: dict[str, list[str]] = {
        "algorithms": [f"{join.kind} {case.algorithm}"],
        "how": [f"{join.kind} {how}"],
        "forms": list(outcome.forms),
        "budgets": [f"{case.memory} bytes" if case.memory else "small pieces" if case.is_small else "all at once"],
    }
    for side, names in types.items():
        for name, type_ in names.items():
            found.setdefault(f"types of {roles[side].get(name, 'other columns')}", []).append(type_)
    return found


def roles_of(arguments: dict[str, object], side: str) -> dict[str, str]:
    """Return what columns are for, by their names."""
    roles: dict[str, str] = {}
    for argument in ("by", f"{side}_by", "on", f"{side}_on", f"{side}_interval"):
        named = arguments.get(argument) or ()
        is_key = isinstance(named, list)
        for name in [named] if isinstance(named, str) else named:
            roles[str(name)] = "keys" if is_key else "`on` and ends"
    return roles


def type_name(data_type: pa.DataType) -> str:
    """Return the name of a type without its numbers, zones and the types within."""
    if pat.is_dictionary(data_type) or pat.is_run_end_encoded(data_type):
        kind = "dictionary" if pat.is_dictionary(data_type) else "runs"
        return f"{kind} of {type_name(data_type.value_type)}"
    if pat.is_decimal(data_type):
        return f"decimal{data_type.bit_width}" + (" of negative scale" if data_type.scale < 0 else "")
    if pat.is_timestamp(data_type):
        return f"timestamp[{data_type.unit}]" + (" with zone" if data_type.tz else "")
    return str(data_type).split("<")[0].split("(")[0]
