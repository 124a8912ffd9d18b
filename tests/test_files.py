"""Files that appear whole or not at all."""

import pytest

from keras_elmo.files import replacing


def test_takes_the_place_of_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with replacing(path) as partial:
        assert partial.endswith(".txt")
        with open(partial, "w") as file:
            file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("written", [False, True])
def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path, written):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as partial:
        if written:
            with open(partial, "w") as file:
                file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "file.txt"
    message = r"no folder .*nowhere to write file\.txt into"
    with pytest.raises(FileNotFoundError, match=message), replacing(path):
        pytest.fail("there is nothing to write to")
