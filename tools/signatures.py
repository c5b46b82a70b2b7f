"""An extension of Griffe: signatures in the reference as a caller writes them.

Names of internal types become short texts, ``| None`` is dropped from arguments that are None by default, and arguments
that only collect mistakes are removed.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Function

SHORT = {
    "Agg": "dict",
    "ChangeFormat": "str",
    "Closed": "str",
    "Direction": "str",
    "Distance": "number | timedelta | str",
    "Format": "str",
    "Frame": "table",
    "How": "str",
    "Key": "str | Expr",
    "KeyInterval": "tuple",
    "Keys": "str | Expr | list",
    "Prefer": "str",
    "Orders": "Order | list[Order]",
    "SparkTable": "DataFrame | path",
    "Spec": "Asof | Range | Overlap | Where | Equi",
    "Ties": "str",
    "Windows": "dict",
}
"""Internal names of types, and their texts."""
TABLES = {"left", "right", "spine"}
"""Arguments that take tables of any library."""
COLLECTORS = {"unknown"}

_NAMES = re.compile(rf"\b(?:{'|'.join(SHORT)})\b")
_LITERALS = re.compile(r"Literal\[([^\]]*)\]")
_UNPACKED = re.compile(r"Unpack\[([^\]]*)\]")


class Signatures(Extension):
    """Shortens the annotations of functions and methods."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Shorten the annotations of a function."""
        func.overloads = None
        for name in COLLECTORS:
            if name in func.parameters:
                del func.parameters[name]
        for each in func.parameters:
            if each.annotation is not None:
                each.annotation = shortened(str(each.annotation), each.name, default=each.default)
        if func.returns is not None:
            func.returns = shortened(str(func.returns), "left" if str(func.returns) == "Any" else "")


def shortened(annotation: str, name: str, *, default: object = None) -> str:
    """Return the text of an annotation.

    Examples
    --------
    >>> shortened("Keys | None", "on", default="None")
    'str | Expr | list'
    >>> shortened("Literal['error', 'count']", "unmatched_deletes", default="'error'")
    'str'
    >>> shortened("Unpack[Execution]", "execution")
    'Execution'
    """
    if annotation == "Any" and name in TABLES:
        return "table"
    text = _UNPACKED.sub(r"\1", _LITERALS.sub("str", _NAMES.sub(lambda found: SHORT[found[0]], annotation)))
    text = text.replace("Sequence[", "list[")
    parts = list(dict.fromkeys(text.split(" | ")))
    if str(default) == "None" and len(parts) > 1:
        parts = [part for part in parts if part != "None"]
    return " | ".join(parts)
