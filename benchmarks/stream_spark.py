"""Measures joins of two streams on Spark, by Juncture and handwritten: ``python benchmarks/stream_spark.py``.

Results go to ``benchmarks/results/stream-spark.json``, and the page in ``docs/how-it-works/benchmarks`` is made of
them; ``--render`` does only that.
"""

from pathlib import Path

from juncture_benchmarks.stream_spark.command import main

if __name__ == "__main__":
    main(__doc__, Path(__file__).resolve().parent)
