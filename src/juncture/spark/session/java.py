"""Check for the Java that Spark needs.

Imports only the standard library, so that this file can run by itself before anything is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_MODULE = "jdk.incubator.vector"
_REMEDY = (
    "Install openjdk-17-jre-headless (on Debian and Ubuntu; elsewhere any full build of Java 17 or newer), and set "
    "JAVA_HOME if it is not the first on PATH."
)


def java_problem() -> str | None:
    """Return what Spark's Java lacks (17, module `jdk.incubator.vector`) and the remedy, or None; takes 0.3 s."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    where = f"JAVA_HOME={home}" if home else "PATH"
    try:
        version = _run(java, "-version")
    except (OSError, subprocess.SubprocessError):
        return f"No working Java in {where}. Spark needs Java 17 or newer. {_REMEDY}"
    match = re.search(r'version "(?:1\.)?(\d+)', version)
    if not match or int(match[1]) < 17:
        name = f"version {match[1]}" if match else "an unknown version"
        return f"The Java in {where} has {name}, but Spark needs Java 17 or newer. {_REMEDY}"
    if not re.search(rf"^{re.escape(_MODULE)}\b", _run(java, "--list-modules"), re.MULTILINE):
        return f"Java {match[1]} in {where} lacks the module {_MODULE}, which Spark needs. {_REMEDY}"
    return None


def _run(java: str, argument: str) -> str:
    done = subprocess.run([java, argument], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


if __name__ == "__main__":
    problem = java_problem()
    sys.exit(f"juncture: {problem}" if problem else None)
