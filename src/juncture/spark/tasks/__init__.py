"""Code that runs inside Spark's tasks, once per partition and with one thread.

Rows arrive and leave as Arrow. Nothing here imports PySpark, and the in-process engine joins. Spark's executors need
Juncture and its dependencies.
"""
