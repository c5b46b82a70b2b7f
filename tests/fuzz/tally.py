"""What a run has seen: how many cases of each kind, what was refused, and what failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from fuzz.kind import Facts, Outcome

__all__ = ["Failure", "Refusal", "Tally"]


@dataclass
class Refusal:
    """A reason for which cases were refused: how often, and one of them."""

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

    def add(self, number: int, outcome: Outcome, facts: Facts) -> None:
        """Count a case. What failed is added by `fail`."""
        self.statuses[outcome.status] += 1
        if outcome.status == "refused":
            refusal = self.refusals.setdefault(outcome.signature, Refusal(0, number, outcome.detail))
            refusal.count += 1
            return
        for what, values in (facts | (outcome.facts or {})).items():
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
