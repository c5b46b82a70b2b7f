"""Java is looked for before Spark starts, and what is wrong with it is one sentence."""

import pytest

from juncture.spark.session.java import java_problem


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Put a Java of our own making before all others."""

    def install(version, modules="java.base@21", status=0):
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            "#!/bin/sh\n"
            f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" 2024\' >&2; exit {status}; fi\n'
            f"echo {modules}\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return install


def test_a_java_that_serves(java):
    java("17.0.2", "jdk.incubator.vector@17.0.2")
    assert java_problem() is None


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("11.0.2", "has version 11"),
        ("1.8.0_392", "has version 8"),
        ("17.0.2", "module jdk.incubator.vector"),
        ("?", "unknown"),
    ],
)
def test_a_java_that_does_not(java, version, problem):
    java(version)
    found = java_problem()
    assert problem in found
    assert "openjdk-17-jre-headless" in found
    assert "\n" not in found


def test_no_java(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "No working Java in PATH" in java_problem()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"JAVA_HOME={tmp_path}" in java_problem()


def test_a_java_that_fails(java):
    java("17.0.2", status=1)
    assert "No working Java" in java_problem()
