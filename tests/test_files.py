"""Files and folders that appear whole or not at all."""

import errno
import os
import re

import pytest

from keras_elmo import ElmoConfig, Vocabulary, files
from keras_elmo.files import atomic_folder, atomic_write
from keras_elmo.pretrained.weights import model_folder


def test_takes_the_place_of_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with atomic_write(path) as partial:
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
    with pytest.raises(KeyboardInterrupt), atomic_write(path) as partial:
        if written:
            with open(partial, "w") as file:
                file.write("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_keeps_pointing_to_the_file(tmp_path):
    (tmp_path / "shared").mkdir()
    path, link = tmp_path / "shared" / "file.txt", tmp_path / "link.txt"
    link.symlink_to(path)
    for text in ("old", "new"):  # to nothing, and to a file
        with atomic_write(link) as partial, open(partial, "w") as file:
            file.write(text)
        assert link.is_symlink() and path.read_text() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are not supported")
def test_a_pipe_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with (
        pytest.raises(FileExistsError, match="pipe is not a file"),
        atomic_write(tmp_path / "pipe"),
    ):
        pytest.fail("there is nothing to write to")


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "file.txt"
    message = r"nowhere does not exist: create it before writing file.txt"
    with pytest.raises(FileNotFoundError, match=message), atomic_write(path):
        pytest.fail("there is nothing to write to")


@pytest.mark.parametrize("output", [atomic_write, atomic_folder])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path, output):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(OSError, match=re.escape(str(tmp_path / "file"))),
        output(tmp_path / "file" / "out"),
    ):
        pytest.fail("there is nothing to write to")
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_without_write_permission_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    message = "cannot be written to: choose a different one"
    with pytest.raises(PermissionError, match=message), atomic_write(tmp_path / "out"):
        pytest.fail("there is nothing to write to")


def write(folder, *names):
    for name in names:
        with open(os.path.join(folder, name), "w") as file:
            file.write(str(folder))


def test_a_folder_appears_when_complete_with_those_around_it(tmp_path):
    path = tmp_path / "a" / "b" / "1"
    with pytest.raises(KeyboardInterrupt), atomic_folder(path) as partial:
        write(partial, "half")
        raise KeyboardInterrupt
    assert os.listdir(path.parent) == []
    with atomic_folder(path) as partial:
        write(partial, "model")
        assert not path.exists()
    assert os.listdir(path) == ["model"] and os.listdir(path.parent) == ["1"]


def test_an_existing_folder_is_replaced_only_when_told_and_of_the_same_kind(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    write(path, "model")
    own = re.compile("model|more")
    with (
        pytest.raises(FileExistsError, match="or pass overwrite=True"),
        atomic_folder(path, own_names=own),
    ):
        pytest.fail("refused before anything is written")
    with atomic_folder(path, overwrite=True, own_names=own) as partial:
        write(partial, "model", "more")
    assert sorted(os.listdir(path)) == ["model", "more"]
    with atomic_folder(path, overwrite=True, own_names=own) as partial:
        write(partial, "model")  # less than before
    assert os.listdir(path) == ["model"] and os.listdir(tmp_path) == ["a"]
    write(path, "thesis")
    for names in (own, None):
        others = {} if names is None else {"own_names": names}
        with (
            pytest.raises(FileExistsError, match="holds files that keras_elmo did not write"),
            atomic_folder(path, overwrite=True, **others),
        ):
            pytest.fail("refused before anything is written")
    assert sorted(os.listdir(path)) == ["model", "thesis"]


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_while_a_folder_is_synced_is_not_lost(tmp_path, monkeypatch, overwrite):
    path = tmp_path / "a"
    sync = files.sync_to_disk

    def slow_sync(name):
        path.mkdir(exist_ok=True)
        write(path, "notes")
        sync(name)

    monkeypatch.setattr(files, "sync_to_disk", slow_sync)
    with pytest.raises(FileExistsError), atomic_folder(path, overwrite) as partial:
        write(partial, "model")
    assert os.listdir(path) == ["notes"] and os.listdir(tmp_path) == ["a"]


def test_a_file_is_no_folder_to_replace(tmp_path):
    write(tmp_path, "a")
    with (
        pytest.raises(FileExistsError, match="a is not a folder that can be replaced"),
        atomic_folder(tmp_path / "a", overwrite=True),
    ):
        pytest.fail("known before anything is written")


def test_what_is_written_is_on_the_disk_before_its_name(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(
        os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}"))
    )
    with atomic_folder(tmp_path / "a") as folder, atomic_write(f"{folder}/file") as partial:
        write("", partial)
    names = [os.path.relpath(path, tmp_path) for path in synced]
    inside = os.path.relpath(folder, tmp_path)
    assert names == [os.path.relpath(partial, tmp_path), inside, f"{inside}/file", inside, "."]


def test_a_link_is_no_folder_to_replace(tmp_path):
    (tmp_path / "v1").mkdir()
    write(tmp_path / "v1", "model")
    (tmp_path / "current").symlink_to("v1")
    with (
        pytest.raises(FileExistsError, match="current is not a folder that can be replaced"),
        atomic_folder(tmp_path / "current", overwrite=True),
    ):
        pytest.fail("known before anything is written")
    assert os.listdir(tmp_path / "v1") == ["model"]


def test_what_a_kill_leaves_of_a_replaced_folder_is_removed_by_the_next(tmp_path, monkeypatch):
    path = tmp_path / "a"

    def replace_folder(name):
        own_names = re.compile("model|[0-9]+")
        with atomic_folder(path, overwrite=True, own_names=own_names) as partial:
            write(partial, "model", name)

    replace_folder("1")
    remove = files.remove

    def killed(name):
        if name.endswith(".replaced") and os.path.exists(name):
            raise KeyboardInterrupt
        remove(name)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files, "remove", killed)
        replace_folder("1")
    assert sorted(os.listdir(tmp_path)) == [".a.replaced", "a"]
    replace_folder("1")
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("write", [atomic_write, atomic_folder, model_folder])
@pytest.mark.parametrize("of_partial", [True, False])
def test_a_full_disk_names_the_output(tmp_path, write, of_partial):
    """The system's error has no name, or that of a partial file."""
    path = tmp_path / "output"
    with pytest.raises(OSError, match="No space left on device: '.*output'$"), write(path) as name:
        names = [os.path.join(name, "weights.hdf5"), None, name] if of_partial else []
        raise OSError(errno.ENOSPC, "No space left on device", *names)


@pytest.mark.parametrize("read", [ElmoConfig.from_json, Vocabulary.from_file])
def test_errors_about_the_content_of_a_file_name_it(tmp_path, read):
    path = tmp_path / "file"
    path.write_text("{}\n")
    with pytest.raises(ValueError, match=rf"{path}: "):
        read(path)


def test_a_folder_that_cannot_be_created_is_told_first(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    for place in ("file", "file/folder"):
        with pytest.raises(NotADirectoryError, match="file is not a folder: choose a different"):
            files.check_new_folder(tmp_path / place)
    files.check_new_folder(tmp_path / "a" / "b")
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    for place in (".", "a", "a/b"):
        with pytest.raises(PermissionError, match=f"The folder {tmp_path} cannot be written to"):
            files.check_new_folder(tmp_path / place)
    with pytest.raises(PermissionError), atomic_folder(tmp_path / "a" / "b"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
