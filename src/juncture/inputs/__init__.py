"""What a user may pass as a table, which engine that asks for, and how a library's tables go in and come out."""

from juncture.inputs.kinds import Kind, choose_engine, is_spark_frame, is_stream, kind_of, paths_of
from juncture.inputs.tables import Given, read_table

__all__ = ["Given", "Kind", "choose_engine", "is_spark_frame", "is_stream", "kind_of", "paths_of", "read_table"]
