"""What a user may pass as a table, which engine that asks for, and how a library's tables go in and come out."""

from juncture.inputs.file_tables import open_files
from juncture.inputs.files import Files
from juncture.inputs.kinds import Kind, choose_engine, is_spark_frame, is_stream, kind_of
from juncture.inputs.tables import Given, read_table

__all__ = [
    "Files",
    "Given",
    "Kind",
    "choose_engine",
    "is_spark_frame",
    "is_stream",
    "kind_of",
    "open_files",
    "read_table",
]
