"""The machine of a benchmark, and the versions of all software."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Return the processor, its cores, the memory in bytes and the operating system."""
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
    }


def describe_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python, of Java and of those packages that are installed."""
    versions = {"python": platform.python_version()}
    if java := _java():
        versions["java"] = java
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def load_average() -> float:
    """Return how many processes wanted a core during the last minute: near 0 on a quiet machine."""
    return round(os.getloadavg()[0], 2)


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    """Return the processor's name; a virtual machine may hide the model, so its family and model number are added."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        found = {
            key: match.group(1).strip()
            for key in ("model name", "cpu family", "model")
            if (match := re.search(rf"^{key}\s*:(.*)$", text, re.MULTILINE))
        }
        if "model name" in found:
            return f"{found['model name']} (family {found.get('cpu family', '?')}, model {found.get('model', '?')})"
    return platform.processor() or platform.machine()


def _java() -> str | None:
    """Return the version of the Java that Spark would start."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java:
        return None
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
        if match := re.search(r'version "([^"]+)"', said):
            return match.group(1)
    return None
