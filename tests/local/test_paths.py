"""Which files a path leads to: links, hidden names, globs, and what is no path at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

import juncture as jn
from juncture.errors import DataError, SpecError
from juncture.runtime.paths import file_at, files_of, listed_on


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.parquet", "deep/b.parquet", "deep/deeper/c.pq", "deep/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


def names(path: Path | str, root: Path) -> list[str]:
    return [str(Path(file.path).relative_to(root)) for file in files_of(str(path))]


ALL = ["a.parquet", "deep/b.parquet", "deep/deeper/c.pq"]


@pytest.mark.parametrize("target", [".", "deep", "deep/deeper"])
def test_a_folder_that_leads_back_into_itself(folder, target):
    (folder / "deep" / "deeper" / "link").symlink_to(folder / target)
    assert names(folder, folder) == ALL
    (folder.parent / f"{folder.name}-link").symlink_to(folder)
    assert len(files_of(f"{folder}-link")) == len(ALL)


def test_links_to_other_folders_and_files_are_followed(folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "x.parquet").write_text("x")
    (folder / "link").symlink_to(other)
    (folder / "y.parquet").symlink_to(other / "x.parquet")
    assert names(folder, folder) == [*ALL, "link/x.parquet", "y.parquet"]
    (other / "back").symlink_to(folder)
    assert names(folder, folder) == [*ALL, "link/x.parquet", "y.parquet"]


@pytest.mark.parametrize("name", ["z.parquet", "deep/days"])
def test_a_link_that_leads_nowhere(folder, name):
    (folder / name).symlink_to("gone")
    for path in (folder, folder / name, f"{folder}/*"):
        with pytest.raises(DataError, match=rf"{name}' is a link to 'gone', which does not exist"):
            files_of(str(path))
    (folder / "deep" / ".hidden").symlink_to("gone")
    (folder / name).unlink()
    assert names(folder, folder) == ALL


def test_a_folder_with_the_name_of_a_file(folder):
    (folder / "d.parquet").mkdir()
    (folder / "d.parquet" / "part-0.parquet").write_text("")
    assert names(folder, folder) == [*ALL[:1], "d.parquet/part-0.parquet", *ALL[1:]]
    assert names(folder / "d.parquet", folder) == ["d.parquet/part-0.parquet"]


def test_a_glob_finds_each_file_once(folder):
    assert names(f"{folder}/**", folder) == ALL
    assert names(f"{folder}/**/*", folder) == [*ALL, "deep/notes.txt"]
    assert names(f"{folder}/*", folder) == ALL


def test_hidden_names_are_left_out(folder):
    for name in ("_SUCCESS", "_x.parquet", ".y.parquet", "_tmp/z.parquet", ".tmp/z.parquet", "_day=1/z.parquet"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    assert names(folder, folder) == ["_day=1/z.parquet", *ALL]
    assert names(f"{folder}/_*", folder) == ["_day=1/z.parquet"]


@pytest.fixture
def elsewhere(folder: Path) -> pa.fs.FileSystem:
    """The folder as a filesystem that is not this machine's."""
    for name in ("_tmp/x.parquet", "deep/_tmp/x.parquet"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("")
    return pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", ALL),
        ("deep", ALL[1:]),
        ("*", ALL),
        ("*.parquet", ALL[:1]),
        ("*/b.*", ["deep/b.parquet"]),
        ("d??p/*/*.pq", ["deep/deeper/c.pq"]),
        ("[a-d]*", ALL),
        ("**", ALL),
        ("**/*.p*", ALL),
        ("deep/**/*.pq", ["deep/deeper/c.pq"]),
        ("deep/**", ALL[1:]),
    ],
)
def test_a_filesystem_elsewhere_has_the_same_rules(folder, elsewhere, path, expected):
    found = listed_on(elsewhere, path)
    assert [file.path for file in found] == expected
    # Of this machine, the same path leads to the same files, of which folders stand for the same columns.
    here = files_of(f"{folder}/{path}")
    assert [(Path(file.path).relative_to(folder).as_posix(), file.folders) for file in here] == [
        (file.path, file.folders) for file in found
    ]


def test_a_path_elsewhere_that_leads_to_no_file(elsewhere):
    for path in ("gone", "gone/*.parquet", "*.csv", "deep/*/*/*"):
        assert listed_on(elsewhere, path) == []


def test_a_file_knows_its_folders(folder):
    assert [file.folders for file in files_of(str(folder))] == [(), ("deep",), ("deep", "deeper")]
    assert [file.folders for file in files_of(f"{folder}/d*/deeper/*.pq")] == [("deep", "deeper")]
    assert [file.folders for file in files_of(f"{folder}/deep/deeper/*.pq")] == [()]
    assert [file.folders for file in files_of(f"{folder}/deep/deeper/c.pq")] == [()]


def test_one_file(folder):
    [found] = files_of(str(folder / "a.parquet"))
    assert file_at(str(folder / "a.parquet")) == found
    assert (found.size_bytes, found.mtime_ns) == (9, (folder / "a.parquet").stat().st_mtime_ns)
    assert file_at(str(folder / "gone.parquet")) is None
    with pytest.raises(DataError, match="cannot be read"):
        file_at("nowhere://x")


@pytest.mark.parametrize("path", ["gone.parquet", "gone/*.parquet", "deep/notes*.parquet", ""])
def test_a_path_that_leads_to_no_file(folder, path):
    (folder / "a.parquet").unlink()
    (folder / "deep" / "b.parquet").unlink()
    (folder / "deep" / "deeper" / "c.pq").unlink()
    with pytest.raises(DataError, match=r"does not exist|is a glob without matches|is a folder without Parquet files"):
        files_of(f"{folder}/{path}")


def test_a_folder_that_may_not_be_listed(folder, monkeypatch):
    # Root may list every folder.
    def refuse(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(DataError, match=r"cannot be read: .*Permission denied"):
        files_of(str(folder))


@pytest.mark.parametrize("path", ["", "  ", ["a.parquet", ""], ["\t"]])
def test_a_path_without_a_name(path, tmp_path, monkeypatch):
    # It would be the working directory.
    monkeypatch.chdir(tmp_path)
    table = pa.table({"k": [1]})
    with pytest.raises(SpecError, match="left table has the empty path"):
        jn.join(path, table, on="k")
    with pytest.raises(SpecError, match="right table has the empty path"):
        jn.join(table, path, on="k")
