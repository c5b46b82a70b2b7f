"""All kernels compiled ahead: each for one signature, and what they share once for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from juncture.kernels.warmup import all_kernels
from support.cases import check_case, read_cases
from support.engines import join_in_process
from support.kinds import SPECS

SEVERAL = {"band._search": 2}
"""Inlined functions of which there is more than one variant: one for each end of a range, which are constants."""

WARM_UP = """
import json, sys
from importlib import import_module
from pkgutil import iter_modules
from numba.core.dispatcher import Dispatcher
from juncture import kernels
from juncture.kernels import warmup

every, told = list(warmup.all_kernels()), []
warmup.all_kernels = lambda: iter(every[:: int(sys.argv[1])])
done = warmup.warm_up(lambda *progress: told.append(progress), int(sys.argv[2]))
variants = {}
for module in iter_modules(kernels.__path__, "juncture.kernels."):
    for name, value in vars(import_module(module.name)).items():
        if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
            variants[module.name.rpartition(".")[-1] + "." + name] = len(value.signatures)
print(json.dumps([done.kernels, done.compiled, done.folders, told, variants]))
"""


@pytest.fixture(scope="module")
def step(request) -> int:
    """Return that all kernels are compiled in a nightly run, and every twelfth in others: each takes a while."""
    return 1 if request.config.getoption("--all") else 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("kernels")


def warm_up(folder: Path, step: int, processes: int = 1) -> list:
    """Compile kernels in a process of its own, quickly since nothing is to run them."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder), "NUMBA_OPT": "1"}
    process = subprocess.run(
        [sys.executable, "-c", WARM_UP, str(step), str(processes)],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env=environment,
    )
    return json.loads(process.stdout)


@pytest.fixture(scope="module")
def first(folder, step) -> list:
    return warm_up(folder, step)


def test_all_kernels_are_compiled_and_kept(first, folder, step):
    kernels, compiled, folders, told, _ = first
    assert kernels == compiled == len(list(all_kernels())[::step]) > 40 // step
    assert told == [[done, kernels] for done in range(kernels + 1)]
    assert [Path(each).parent for each in folders] == [folder]
    # A file for each variant.
    assert len(list(folder.rglob("*.nbc"))) == kernels


def test_several_processes_compile_as_one_does(first, step, tmp_path):
    kernels, compiled, folders, told, _ = warm_up(tmp_path, step, processes=2)
    assert kernels == compiled == first[0] == len(list(tmp_path.rglob("*.nbc")))
    assert [Path(each).parent for each in folders] == [tmp_path]
    assert told[0] == [0, kernels]
    assert told[-1] == [kernels, kernels]
    assert told == sorted(told)


@pytest.mark.nightly
def test_what_kernels_share_is_compiled_once(first):
    variants = first[-1]
    assert len(variants) > 20
    assert {name: count for name, count in variants.items() if count != 1} == SEVERAL


def test_the_next_process_finds_all_there(first, folder, step):
    kernels, compiled, folders, *_ = warm_up(folder, step)
    assert (kernels, compiled, folders) == (first[0], 0, first[2])


@pytest.mark.parametrize("kind", SPECS)
def test_joins_compile_no_variant_more(kind):
    for case in read_cases(kind):
        check_case(case, partial(join_in_process, algorithm="auto"))
    variants = {
        f"{kernel.__module__}.{kernel.__name__}": len(kernel._machine_code.signatures)
        for kernel in all_kernels()
        if kernel._machine_code is not None
    }
    assert variants
    assert set(variants.values()) == {1}


SMALL_JOINS = """
import sys
from functools import partial
from juncture.kernels.warmup import all_kernels
from support.cases import check_case, read_cases
from support.engines import join_in_process

for kind in sys.argv[1:]:
    for case in list(read_cases(kind))[::8]:
        check_case(case, partial(join_in_process, algorithm="auto"))
print(sum(kernel._machine_code is not None for kernel in all_kernels()))
"""


def test_small_joins_on_a_new_machine_compile_nothing(tmp_path):
    environment = os.environ | {
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    process = subprocess.run(
        [sys.executable, "-c", SMALL_JOINS, *SPECS], capture_output=True, text=True, timeout=300, env=environment
    )
    assert process.stdout.split() == ["0"], process.stderr
    assert not list(tmp_path.rglob("*.nb*"))
