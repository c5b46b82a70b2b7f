#!/bin/sh
# The project's own Python environment, in .venv, with the versions of constraints.txt.
#
#   environment.sh create               make .venv: with uv if it is there, else with a Python that is new enough
#   environment.sh spark VERSION        make .venv-spark-VERSION, with an older version of PySpark
#   environment.sh install PACKAGE...   install into it; takes what `pip install` takes
set -eu

fail() {
    echo "juncture: $*" >&2
    exit 1
}

have_uv() {
    uv --version >/dev/null 2>&1
}

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

create() {
    if have_uv; then
        uv venv --quiet --clear --python '>=3.11' .venv
        return
    fi
    for python in ${PYTHON:-python3 python python3.14 python3.13 python3.12 python3.11}; do
        if new_enough "$python"; then
            "$python" -m venv --clear .venv || {
                rm -rf .venv
                fail "$python cannot make environments; install its venv module (on Debian and Ubuntu the package" \
                    "python3-venv), or uv."
            }
            return
        fi
    done
    fail "no Python 3.11 or newer was found; install one (on Debian and Ubuntu the packages python3.11 and" \
        "python3.11-venv, or newer), or uv."
}

install() {
    if have_uv; then
        # As pip does: where Python writes no bytecode itself, each process would compile the libraries anew, for
        # seconds, and Spark starts many.
        uv pip install --quiet --compile-bytecode --python .venv/bin/python --constraint constraints.txt "$@"
        return
    fi
    # Dependency groups need a newer pip than Python 3.11 and 3.12 bring.
    .venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
    .venv/bin/python -m pip install --quiet --constraint constraints.txt "$@"
}

# An older PySpark, beside the other packages of constraints.txt.
spark() {
    folder=.venv-spark-$1
    connect='[connect]'
    # Its extra excludes NumPy 2, and its package has no Connect server.
    [ "$1" != 3.5 ] || connect=
    .venv/bin/python -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --upgrade 'pip>=25.1'
    grep -v '^pyspark' constraints.txt >"$folder/constraints.txt"
    "$folder/bin/python" -m pip install --quiet --constraint "$folder/constraints.txt" "pyspark$connect~=$1.0" \
        --editable . --group spark-versions
}

command=$1
shift
"$command" "$@"
