"""What the counts of a match report mean, in words of the columns of the join."""

from __future__ import annotations

from juncture.spec.asof import ResolvedAsof
from juncture.spec.resolved import Resolved


def explanations_of(join: Resolved) -> dict[str, str]:
    """Say what each count of a match report means, by its name, of those that are not 0 in every such join."""
    keys = ", ".join(join.left_by)
    texts: dict[str, str] = {}
    if join.domain is not None:
        texts["null_on"] = f"{' or '.join(ordering_columns(join))} is {join.domain.missing_text}"
    if keys and not join.nulls_equal:
        texts["null_key"] = f"{keys} is null"
    if keys:
        texts["unknown_key"] = f"no right row has this {keys}"
    if isinstance(join, ResolvedAsof):
        return texts | _asof_explanations(join)
    if join.domain is not None or join.predicate is not None:
        texts["no_candidate"] = "no right row of this key satisfies the condition" if keys else "no right row matches"
    return texts


def ordering_columns(join: Resolved) -> list[str]:
    """Return the left columns that must have a value, beside the keys."""
    return [name for name in join.position("left") if name is not None]


def _asof_explanations(join: ResolvedAsof) -> dict[str, str]:
    side = {"backward": "before or at", "forward": "after or at", "nearest": "near"}[join.spec.direction]
    if not join.spec.allow_exact_matches:
        side = side.removesuffix(" or at")
    available = "" if join.available_at is None else f" was available by its {join.available_at.left}"
    condition = "" if join.where is None else f"{' and' if available else ''} satisfies where="
    texts = {"no_candidate": f"no right row {side} this {join.left_on}{available}{condition}"}
    if join.tolerance is not None and join.tolerance.column is not None:
        texts["beyond_tolerance"] = f"farther away than its {join.tolerance.column}"
    elif join.tolerance is not None:
        texts["beyond_tolerance"] = f"more than {join.domain.distance_text(join.tolerance.constant or 0)} away"
    return texts | {"ties": f"several right rows at the best {join.right_on}"}
