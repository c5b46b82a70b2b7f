"""Outputs appear whole or not at all, and nothing else is ever replaced."""

import pytest

from juncture.errors import PlanError
from juncture.files.output import check_target, replacing


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file(tmp_path):
    with replacing(tmp_path / "out.csv") as fresh:
        fresh.write_text("new")
        assert not (tmp_path / "out.csv").exists()
    assert names(tmp_path) == ["out.csv"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_a_failure(tmp_path, error):
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(error), replacing(tmp_path / "out.csv") as fresh:
        fresh.write_text("half")
        raise error
    assert names(tmp_path) == ["out.csv"]
    assert (tmp_path / "out.csv").read_text() == "old"


def test_a_folder_takes_the_place_of_a_folder(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.parquet").touch()
    with replacing(tmp_path / "out") as fresh:
        fresh.mkdir()
        (fresh / "new.parquet").touch()
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["new.parquet"]


def test_the_old_one_stays_where_nothing_was_written(tmp_path):
    (tmp_path / "out.csv").write_text("old")
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "out.csv"):
        pass
    assert names(tmp_path) == ["out.csv"]


def test_what_exists_is_replaced_only_when_told(tmp_path):
    target = tmp_path / "out.parquet"
    check_target(target, overwrite=False)
    target.touch()
    with pytest.raises(PlanError, match="--overwrite"):
        check_target(target, overwrite=False)
    check_target(target, overwrite=True)


def test_a_folder_of_other_things_is_never_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_SUCCESS").touch()
    (tmp_path / "out" / "part-0.parquet").touch()
    check_target(tmp_path / "out", overwrite=True)
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(PlanError, match=r"thesis\.tex"):
        check_target(tmp_path / "out", overwrite=True)


def test_a_folder_that_holds_an_input_is_never_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "left.parquet").touch()
    with pytest.raises(PlanError, match="contains an input"):
        check_target(tmp_path / "out", overwrite=True, inputs=[tmp_path / "out" / "left.parquet"])


def test_no_folder_to_lie_in(tmp_path):
    with pytest.raises(PlanError, match=r"does not exist\. Create it"):
        check_target(tmp_path / "nowhere" / "out.parquet", overwrite=False)
