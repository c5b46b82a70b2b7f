"""Input tables: their kinds, the engine that they need, and conversion from and to their libraries."""

from juncture.inputs.file_tables import open_files
from juncture.inputs.files import Files
from juncture.inputs.kinds import Kind, choose_engine, is_spark_frame, is_stream, kind_of
from juncture.inputs.tables import InputTable, read_table

__all__ = [
    "Files",
    "InputTable",
    "Kind",
    "choose_engine",
    "is_spark_frame",
    "is_stream",
    "kind_of",
    "open_files",
    "read_table",
]
