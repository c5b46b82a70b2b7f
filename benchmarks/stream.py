"""Measures joins of streams by Juncture and DataFusion in one run: ``python benchmarks/stream.py``.

Results go to ``benchmarks/results/stream.json``; ``--render`` makes the page and the plot in
``docs/how-it-works/benchmarks`` from them, and measures nothing.
"""

from pathlib import Path

from juncture_benchmarks.command import main
from juncture_benchmarks.stream.benchmark import STREAM

if __name__ == "__main__":
    main(STREAM, __doc__, Path(__file__).resolve().parent)
