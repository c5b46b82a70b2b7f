"""The constants of the cost formulas: built in, or as `juncture calibrate` measured them on the machine at hand."""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from juncture.errors import SpecError, did_you_mean

CONSTANTS_VARIABLE = "JUNCTURE_CONSTANTS"
"""The environment variable that names a file of constants."""


@dataclass(frozen=True, kw_only=True)
class Constants:
    """Cost of one row in one step, in core-nanoseconds, or of a step in seconds.

    Attributes
    ----------
    scan_ns, direct_scan_ns
        Read by the JVM; read by the task itself through Arrow.
    to_python_ns, from_python_ns
        Cross from the JVM to Python, and back.
    row_size_ns
        Add up the sizes of all columns once more for a row that crosses to Python, where Spark limits batches by bytes.
    search_ns
        Code, search and match in a kernel.
    scatter_ns
        Place in a partition, pack and shuffle as bytes.
    shuffle_ns, sort_ns
        Shuffle row by row, and sort, in the JVM.
    collect_ns
        Bring to the driver.
    stage_s, python_s
        Plan and start one more stage; start Python in a stage, whose workers Spark keeps.
    key_sort_ns
        Sort by a key that is a number, in the JVM.
    jvm_build_ns, jvm_probe_ns
        Insert a row into a hash table of the JVM; look a row up in it.
    jvm_loop_pair_ns, jvm_hash_pair_ns
        Compare two rows in Spark's nested loop; the same in Spark's join by keys, averaged over all pairs.
    bin_pair_ns
        Compare two rows of a bin, in Spark's own join.
    output_row_ns
        Build an output row in Spark's own join.
    fold_ns
        Add a match to an aggregate.
    order_ns
        In-process, bring a left row into order, and give it out again.
    probe_ns, merge_ns, pass_ns
        In-process, find the place of a right row; sort it and pass over it; pass over a row of a side that is sorted.
    index_s
        In-process, make the index that right rows are looked up in, however small.
    arrange_ns
        In-process, sort a right row by a limited expression, or find the span of a left one.
    span_pair_ns, block_pair_ns, nested_pair_ns
        In-process, compare a pair of rows: in a span, in a pair of blocks, among all pairs.
    equi_probe_ns, hash_build_ns, partition_ns
        In-process equality join: read a row, look up its key and return it; insert a key into the hash table; move a
        row to its partition.
    dense_key_ns
        In-process equality join of integer keys in a narrow range: read a row, find its key by its distance from the
        least one, and return it.
    merge_left_ns, merge_right_ns
        In-process equality join by merging: sort a left row within its batch and merge it; sort and buffer a right row.
    restore_ns, spill_ns
        In-process, in pieces: bring a row back into the left order; write a byte to disk, and read it again.
    source
        The file that they come from; None for those that are built in.
    """

    scan_ns: float = 100
    direct_scan_ns: float = 60
    to_python_ns: float = 200
    from_python_ns: float = 300
    row_size_ns: float = 430
    search_ns: float = 150
    scatter_ns: float = 350
    shuffle_ns: float = 440
    sort_ns: float = 2_000
    collect_ns: float = 250
    stage_s: float = 0.25
    python_s: float = 0.1
    key_sort_ns: float = 360
    jvm_build_ns: float = 500
    jvm_probe_ns: float = 100
    jvm_loop_pair_ns: float = 6
    jvm_hash_pair_ns: float = 0.6
    bin_pair_ns: float = 25
    output_row_ns: float = 30
    fold_ns: float = 2
    order_ns: float = 360
    probe_ns: float = 90
    merge_ns: float = 220
    pass_ns: float = 15
    index_s: float = 0.001
    arrange_ns: float = 150
    span_pair_ns: float = 30
    block_pair_ns: float = 50
    nested_pair_ns: float = 60
    equi_probe_ns: float = 29
    hash_build_ns: float = 55
    partition_ns: float = 9
    dense_key_ns: float = 11
    merge_left_ns: float = 33
    merge_right_ns: float = 60
    restore_ns: float = 63
    spill_ns: float = 5
    source: str | None = None


BUILT_IN = Constants()
"""The constants without a file."""


def constant_names() -> tuple[str, ...]:
    """Return the names of all constants."""
    return tuple(each.name for each in fields(Constants) if each.name != "source")


def constants_at_hand() -> Constants:
    """Return the constants of the file that the environment names, or those that are built in.

    Raises
    ------
    SpecError
        If there is no such file, or it is not one of constants.
    """
    path = os.environ.get(CONSTANTS_VARIABLE)
    return read_constants(path) if path else BUILT_IN


_NAME = "JN-CONSTANTS-FILE"


def read_constants(path: str) -> Constants:
    """Read a file of constants: TOML, a number under the name of each. Those that it leaves out are built in.

    Raises
    ------
    SpecError
        If there is no such file, or it is not one of constants.
    """
    where = f"{CONSTANTS_VARIABLE}={path!r}"
    mend = f"Write it with `juncture calibrate`, or unset {CONSTANTS_VARIABLE}."
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{where} cannot be read: {error.strerror or error}. {mend}", name=_NAME) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not TOML: {error}. {mend}", name=_NAME) from error
    known = constant_names()
    for name, value in values.items():
        if name not in known:
            raise SpecError(f"{where} has unknown constant {name!r}. {did_you_mean(name, known)} {mend}", name=_NAME)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            unit = "seconds" if name.endswith("_s") else "nanoseconds"
            raise SpecError(f"{where} has {name} = {value!r}. Expected a number of {unit} above 0. {mend}", name=_NAME)
    return Constants(**{name: float(value) for name, value in values.items()}, source=path)


def constants_text(values: Mapping[str, float], heading: str) -> str:
    """Return the text of a file of constants.

    Examples
    --------
    >>> print(constants_text({"order_ns": 361.25}, "of a laptop"), end="")
    # of a laptop
    order_ns = 361.2
    """
    lines = [f"# {line}" for line in heading.splitlines()]
    # Two digits more than a measurement is good for; each has a point, so that TOML takes it for a float.
    lines += [f"{name} = {float(f'{value:.4g}')}" for name, value in values.items()]
    return "\n".join(lines) + "\n"
