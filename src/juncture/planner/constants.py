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
    """Cost of one row in one step, in core-nanoseconds, or of a step in seconds."""

    scan_ns: float = 100  # read by the JVM
    direct_scan_ns: float = 60  # read by the task itself through Arrow
    to_python_ns: float = 200  # cross from the JVM to Python
    from_python_ns: float = 300  # cross back
    row_size_ns: float = 430  # add up all columns' sizes once more, where Spark limits batches to Python by bytes
    search_ns: float = 150  # code, search and match in a kernel
    scatter_ns: float = 350  # place in a partition, pack and shuffle as bytes
    shuffle_ns: float = 440  # shuffle row by row in the JVM
    sort_ns: float = 2_000  # sort, in the JVM
    collect_ns: float = 250  # bring to the driver
    stage_s: float = 0.25  # plan and start one more stage
    python_s: float = 0.1  # start Python in a stage, whose workers Spark keeps
    key_sort_ns: float = 360  # sort by a key that is a number, in the JVM
    jvm_build_ns: float = 500  # insert a row into a hash table of the JVM
    jvm_probe_ns: float = 100  # look a row up in such a table
    jvm_loop_pair_ns: float = 6  # compare two rows in Spark's nested loop
    jvm_hash_pair_ns: float = 0.6  # compare two rows in Spark's join by keys, averaged over all pairs
    bin_pair_ns: float = 25  # compare two rows of a bin, in Spark's own join
    output_row_ns: float = 30  # build an output row in Spark's own join
    fold_ns: float = 2  # add a match to an aggregate
    order_ns: float = 360  # in-process, bring a left row into order, and give it out again
    probe_ns: float = 90  # in-process, find the place of a right row in a sorted left side
    merge_ns: float = 220  # in-process, sort a right row and pass over it
    pass_ns: float = 15  # in-process, pass over a row of a sorted side
    index_s: float = 0.001  # in-process, make the index of an as-of join or the tables of partitions, however small
    arrange_ns: float = 150  # in-process, sort a right row by a limited expression, or find the span of a left one
    span_pair_ns: float = 30  # in-process, compare a pair of rows in a span
    block_pair_ns: float = 50  # in-process, compare a pair of rows in a pair of blocks
    nested_pair_ns: float = 60  # in-process, compare a pair of rows among all pairs
    equi_probe_ns: float = 29  # in-process equality join: read a row, look up its key and return it
    hash_build_ns: float = 55  # insert a key into the hash table there
    partition_ns: float = 17  # move a row to its partition there
    dense_key_ns: float = 11  # the same for integer keys in a narrow range, which are found without a hash table
    merge_left_ns: float = 70  # in-process equality join by merging: sort a left row within its batch and merge it
    merge_right_ns: float = 130  # sort and buffer a right row there
    restore_ns: float = 63  # in-process, in pieces: bring a row back into the left order
    spill_ns: float = 5  # in-process, write a byte to disk, and read it again
    source: str | None = None  # the file that they come from; None for those that are built in


BUILT_IN = Constants()
"""The constants without a file."""


def constants_at_hand() -> Constants:
    """Return the constants of the file that the environment names, or those that are built in."""
    path = os.environ.get(CONSTANTS_VARIABLE)
    return read_constants(path) if path else BUILT_IN


_NAME = "JN-CONSTANTS-FILE"


def read_constants(path: str) -> Constants:
    """Read a file of constants: TOML, a number under the name of each. Those that it leaves out are built in."""
    where = f"{CONSTANTS_VARIABLE}={path!r}"
    mend = f"Write it with `juncture calibrate`, or unset {CONSTANTS_VARIABLE}."
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{where} cannot be read: {error.strerror or error}. {mend}", name=_NAME) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{where} is not TOML: {error}. {mend}", name=_NAME) from error
    names = [each.name for each in fields(Constants) if each.name != "source"]
    for name, value in values.items():
        if name not in names:
            raise SpecError(f"{where} has unknown constant {name!r}. {did_you_mean(name, names)} {mend}", name=_NAME)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 < value < math.inf:
            unit = "seconds" if name.endswith("_s") else "nanoseconds"
            raise SpecError(f"{where} has {name} = {value!r}. Expected a number of {unit} above 0. {mend}", name=_NAME)
    return Constants(**{name: float(value) for name, value in values.items()}, source=path)


def constants_text(values: Mapping[str, float], heading: str) -> str:
    """Return the text of a file of constants, as `read_constants` reads it."""
    lines = [f"# {line}" for line in heading.splitlines()]
    # Two digits more than a measurement is good for; each has a point, so that TOML takes it for a float.
    lines += [f"{name} = {float(f'{value:.4g}')}" for name, value in values.items()]
    return "\n".join(lines) + "\n"
