"""Code that runs inside Spark's tasks, once per partition and with one thread.

Rows come in and go out as Arrow. Nothing here imports PySpark, and the in-process engine does the joining; both
Juncture and its dependencies have to be installed where Spark's executors run.
"""
