"""Joins Parquet files on a cluster, one join after the other: ``cluster_join.py URL LEFT RIGHT OUTPUT JSON``."""

import json
import os
import sys

from pyspark.sql import SparkSession

import juncture as jn


def main(url: str, left: str, right: str, output: str, text: str) -> None:
    options = json.loads(text)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(url).appName("cluster join")
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        **options["settings"],
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    frames = [session.read.parquet(path) for path in (left, right)]
    kinds = {kind.kind: kind for kind in (jn.Asof, jn.Equi)}
    for join in options["joins"]:
        spec = kinds[join["spec"]["kind"]].from_dict(join["spec"])
        joined = jn.plan(*frames, spec, algorithm=join["algorithm"]).execute()
        joined.write.parquet(f"{output}/{spec.kind}")
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
