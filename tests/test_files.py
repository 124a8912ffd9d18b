"""Files and folders that appear whole or not at all."""

import os

import pytest

from keras_elmo import files
from keras_elmo.files import atomic_folder, atomic_write


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
    message = r"nowhere does not exist: create it before writing file"
    with pytest.raises(FileNotFoundError, match=message), atomic_write(path):
        pytest.fail("there is nothing to write to")


def write_file(path):
    with atomic_write(path) as partial, open(partial, "w") as file:
        file.write("new")


def write_folder(path):
    with atomic_folder(path) as partial:
        write(partial, "model")


@pytest.mark.parametrize("output", [write_file, write_folder])
def test_a_place_that_cannot_be_written_to_is_named(tmp_path, monkeypatch, output):
    (tmp_path / "file").write_text("mine")
    message = r"/file is not a folder: choose a different one for \w+\.$"
    for names in (["out"], ["out", "1"])[: 1 + (output is write_folder)]:
        with pytest.raises(NotADirectoryError, match=message):
            output(tmp_path.joinpath("file", *names))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError, match="cannot be written to: choose a different one"):
        output(tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("output", [write_file, write_folder])
@pytest.mark.parametrize("function", ["builtins.open", "os.mkdir", "os.replace"])
def test_errors_name_the_path_of_the_user(tmp_path, monkeypatch, output, function):
    """Not the hidden name of the incomplete output."""

    def denied(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    if function == "os.mkdir" and output == write_file:
        pytest.skip("does not call it")
    with (
        monkeypatch.context() as patch,
        pytest.raises(PermissionError) as caught,
    ):
        patch.setattr(function, denied)
        output(tmp_path / "out")
    assert str(caught.value) == f"[Errno 13] Permission denied: '{tmp_path / 'out'}'"
    assert not list(tmp_path.iterdir())


def test_other_errors_are_unchanged(tmp_path):
    with pytest.raises(OSError) as caught, atomic_write(tmp_path / "out"):
        os.stat(tmp_path / "input")
    assert caught.value.filename == str(tmp_path / "input")


def write(folder, *names):
    for name in names:
        with open(os.path.join(folder, name), "w") as file:
            file.write(str(folder))


def test_a_folder_appears_when_complete_with_those_around_it(tmp_path):
    path = tmp_path / "a" / "b" / "1"
    with atomic_folder(path) as partial:
        write(partial, "model")
        assert [os.path.join(tmp_path, name) for name in os.listdir(tmp_path)] == [partial]
    assert os.listdir(path) == ["model"]
    assert os.listdir(tmp_path) == ["a"]


def test_an_error_leaves_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "a" / "b") as partial:
        write(partial, "half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_an_existing_folder_is_replaced_only_when_told_and_of_the_same_kind(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    write(path, "model")
    with (
        pytest.raises(FileExistsError, match="or pass overwrite=True"),
        atomic_folder(path),
    ):
        pass
    with atomic_folder(path, overwrite=True) as partial:
        write(partial, "model", "more")
    assert sorted(os.listdir(path)) == ["model", "more"]
    with (
        pytest.raises(FileExistsError, match="holds more than an export: more"),
        atomic_folder(path, overwrite=True) as partial,
    ):
        write(partial, "model")
    assert sorted(os.listdir(path)) == ["model", "more"]
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_with_files_of_others_deeper_in_it_is_not_replaced(tmp_path):
    (tmp_path / "a" / "variables").mkdir(parents=True)
    write(tmp_path / "a" / "variables", "mine")
    with (
        pytest.raises(FileExistsError, match="more than an export: variables/mine"),
        atomic_folder(tmp_path / "a", overwrite=True) as partial,
    ):
        os.mkdir(os.path.join(partial, "variables"))
    assert os.listdir(tmp_path / "a" / "variables") == ["mine"]


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


def test_a_link_gives_way_to_a_folder_and_what_it_names_stays(tmp_path):
    (tmp_path / "v1").mkdir()
    write(tmp_path / "v1", "model")
    (tmp_path / "current").symlink_to("v1")
    with atomic_folder(tmp_path / "current", overwrite=True) as partial:
        write(partial, "model", "more")
    assert sorted(os.listdir(tmp_path)) == ["current", "v1"]
    assert sorted(os.listdir(tmp_path / "current")) == ["model", "more"]
    assert os.listdir(tmp_path / "v1") == ["model"]


def test_a_kill_leaves_no_half_of_a_folder_that_is_removed(tmp_path, monkeypatch):
    folder = tmp_path / "parts"
    folder.mkdir()
    write(folder, "1", "2")

    def killed(path):
        os.unlink(os.path.join(path, "2"))
        raise OSError("killed")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="killed"):
        patch.setattr(files.shutil, "rmtree", killed)
        files.discard(str(folder))
    assert not folder.exists()
    files.discard(str(folder))
    assert os.listdir(tmp_path) == []
