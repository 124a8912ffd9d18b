"""Files of word vectors."""

import contextlib
import hashlib
import os
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest

from keras_elmo import files
from keras_elmo.embedding import formats, writers
from keras_elmo.embedding.writers import VectorWriter, open_writer, stored_lines
from keras_elmo.text.reader import Record

LAYERS = [
    np.arange(12, dtype="float32").reshape(2, 2, 3),
    np.zeros((2, 0, 3), "float32"),
    np.ones((2, 1, 3), "float32"),
]
TOKENS = [["a", b"b\xff"], [], ["c"]]
SETTINGS = {"model": "m", "dtype": "float32"}
needs_parquet = pytest.mark.needs("pyarrow")
NAMES = ["v.h5", "v.npz", pytest.param("v.parquet", marks=needs_parquet)]


def records(tokens=TOKENS, digest="d"):
    return [Record([list(line)], None if line else "no words", digest, 0) for line in tokens]


def fill(opened, arrays=LAYERS):
    with opened as writer:
        writer.write(zip(records(), arrays))
        writer.finish()


def killed(path, settings=SETTINGS, resume=False, overwrite=False):
    """A writer that ends as by a kill: without the end of its block, and its lock is released."""
    return VectorWriter(str(path), {**settings, "compression": None}, resume, overwrite)


def block(number):
    """A block of two lines that hold their numbers, with the digest of the numbers so far."""
    numbers = [2 * number, 2 * number + 1]
    lines = [
        Record([str(n)], None, hashlib.sha256(bytes(range(n + 1))).hexdigest(), 0) for n in numbers
    ]
    return lines, [np.full((1, 3), n, "float32") for n in numbers]


def write_blocks(writer, stop, start=None):
    """Writes blocks after those that are there."""
    start = writer.num_lines // 2 if start is None else start
    for number in range(start, stop):
        writer.write(zip(*block(number)))


def numbers_in(path):
    """The numbers in a file of `block`s, in the order of its lines."""
    if path.suffix == ".parquet":
        rows = read_parquet(path)
        assert [row["line"] for row in rows] == list(range(len(rows)))
        return [int(row["vectors"][0][0]) for row in rows]
    if path.suffix == ".npz":
        with np.load(path) as file:
            assert file.files == [str(i) for i in range(len(file.files))]
            return [int(array[0, 0]) for array in file.values()]
    with h5py.File(path) as file:
        assert list(file) == [str(i) for i in range(len(file))]
        return [int(array[0, 0]) for array in file.values()]


def read_parquet(path):
    import pyarrow.parquet as parquet

    return parquet.read_table(path).to_pylist()


def part_names(path):
    folder = path.with_name(f".{path.name}.parts")
    return sorted(os.listdir(folder)) if folder.exists() else None


@pytest.fixture(params=NAMES)
def path(tmp_path, request):
    return tmp_path / request.param


@pytest.fixture
def small_parts(monkeypatch):
    """A part for each block."""
    monkeypatch.setattr(writers, "_PART_BYTES", 1)


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_hdf5(tmp_path, dtype, compression):
    path, arrays = tmp_path / "v.h5", [array.astype(dtype) for array in LAYERS]
    fill(open_writer(path, SETTINGS, compression=compression), arrays)
    with h5py.File(path) as file:
        assert list(file) == ["0", "1", "2"]
        for i, array in enumerate(LAYERS):
            np.testing.assert_array_equal(file[str(i)][()], array)
            assert file[str(i)].dtype == dtype
        assert file["0"].compression == compression
        assert file["1"].attrs["error"] == "no words"
        assert not file["0"].attrs
    assert [found.name for found in tmp_path.iterdir()] == ["v.h5"]


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_npz(tmp_path, dtype, compression, small_parts):
    """The arrays come first, as the notes of several parts do not belong between them."""
    path, arrays = tmp_path / "v.npz", [array.astype(dtype) for array in LAYERS]
    with open_writer(path, SETTINGS, compression=compression) as writer:
        for line in zip(records(), arrays):
            writer.write([line])
        writer.finish()
    with np.load(path) as file:
        assert file.files == ["0", "1", "2", "error/1"]
        for found, array in zip(file.values(), arrays):
            np.testing.assert_array_equal(found, array)
            assert found.dtype == dtype
        assert file["error/1"] == "no words"
    with zipfile.ZipFile(path) as file:
        kind = zipfile.ZIP_STORED if compression is None else zipfile.ZIP_DEFLATED
        assert {member.compress_type for member in file.infolist()} == {kind}


@needs_parquet
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("take", [lambda x: x, lambda x: x[0], lambda x: x.sum(axis=(0, 1))])
def test_parquet(tmp_path, dtype, take):
    arrays = [take(array).astype(dtype) for array in LAYERS]
    fill(open_writer(tmp_path / "v.parquet", SETTINGS), arrays)
    rows = read_parquet(tmp_path / "v.parquet")
    assert [row["line"] for row in rows] == [0, 1, 2]
    assert [row["tokens"] for row in rows] == [["a", "b"], [], ["c"]]
    assert [row["sentence_lengths"] for row in rows] == [[2], [0], [1]]
    assert [row["error"] for row in rows] == [None, "no words", None]
    for row, array in zip(rows, arrays):
        np.testing.assert_array_equal(np.reshape(row["vectors"], array.shape), array)


def test_a_run_resumes_after_each_part(path, small_parts):
    """Each run writes one more part, and ends without a word as a killed one does."""
    for done in range(4):
        writer = killed(path, resume=done > 0)
        assert writer.num_lines == stored_lines(path) == 2 * done
        write_blocks(writer, done + 1)
        assert not path.exists()
    with (
        pytest.raises(FileExistsError, match="was started. Continue it with resume=True"),
        open_writer(path, SETTINGS),
    ):
        pytest.fail("known before")
    with open_writer(path, SETTINGS, resume=True) as writer:
        assert (writer.num_lines, writer.digest) == (8, block(3)[0][-1].digest)
        write_blocks(writer, 5)
        writer.finish()
    assert numbers_in(path) == list(range(10))
    assert os.listdir(path.parent) == [path.name]


def test_a_complete_file_is_left_alone(path, small_parts):
    with open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 2)
        writer.finish()
    modified = path.stat().st_mtime_ns
    with open_writer(path, SETTINGS, resume=True) as writer:
        assert writer.is_finished and writer.num_lines == stored_lines(path) == 4
        writer.finish()
    assert path.stat().st_mtime_ns == modified
    assert numbers_in(path) == list(range(4))
    assert os.listdir(path.parent) == [path.name]


def test_an_error_keeps_the_blocks_before_it(path, caplog):
    with pytest.raises(RuntimeError), open_writer(path, SETTINGS):
        raise RuntimeError
    assert os.listdir(path.parent) == [] and not caplog.records
    with pytest.raises(RuntimeError), open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 3)
        assert part_names(path) is None  # small blocks share a part
        raise RuntimeError
    assert stored_lines(path) == 6 and not path.exists()
    assert [one.getMessage() for one in caplog.records] == [
        "The vectors of the first 6 lines are kept: resuming continues after them."
    ]
    with open_writer(path, SETTINGS, resume=True) as writer:
        writer.finish()
    assert numbers_in(path) == list(range(6))


def full(*_, **__):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("function", ["write_part", "join"])
def test_a_full_disk_keeps_the_parts_before(path, small_parts, monkeypatch, function):
    """In the middle of a part, or of the file."""
    if path.suffix == ".parquet" and function == "join":
        pytest.skip("its parts are the file")
    kind = type(formats.FORMATS[path.suffix])
    with (
        pytest.raises(OSError, match="No space left on device"),
        monkeypatch.context() as patch,
        open_writer(path, SETTINGS) as writer,
    ):
        write_blocks(writer, 2)
        original = getattr(kind, function)

        def half(self, *args):
            patch.setattr(formats, "_copy_datasets", full)
            if function == "join":
                patch.setattr(zipfile.ZipFile, "writestr", full)
            original(self, *args)
            full()

        patch.setattr(kind, function, half)
        write_blocks(writer, 3)
        writer.finish()
    assert stored_lines(path) == (4 if function == "write_part" else 6)
    assert not path.exists()
    assert all(name.startswith("part-") for name in part_names(path))
    with open_writer(path, SETTINGS, resume=True) as writer:
        write_blocks(writer, 3)
        writer.finish()
    assert numbers_in(path) == list(range(6))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("content", ["ours", "foreign"])
def test_an_existing_file_stays_until_it_is_replaced(path, small_parts, content):
    if content == "ours":
        fill(open_writer(path, SETTINGS))
    elif path.suffix == ".parquet":
        pytest.skip("a folder does not replace a file")
    else:
        path.write_bytes(b"mine")

    def state():
        files = [path] if path.is_file() else sorted(path.iterdir())
        return [(file.name, file.read_bytes()) for file in files]

    before = state()
    with pytest.raises(FileExistsError), open_writer(path, SETTINGS):
        pytest.fail("known before")
    if content != "ours":
        with pytest.raises(ValueError, match="not .* keras_elmo"):
            killed(path, resume=True)
    write_blocks(killed(path, {**SETTINGS, "model": "n"}, overwrite=True), 3)  # is forgotten
    with pytest.raises(ValueError, match="made with a different model: resume with the same"):
        killed(path, resume=True)
    write_blocks(killed(path, overwrite=True), 2)
    assert state() == before and len(part_names(path)) == 2
    # What the killed run has done is continued, not the old file.
    with open_writer(path, SETTINGS, resume=True) as writer:
        assert writer.num_lines == 4
        write_blocks(writer, 3)
        assert state() == before
        writer.finish()
    assert numbers_in(path) == list(range(6))
    assert os.listdir(path.parent) == [path.name]


def link(path):
    target = path.with_name("mine")
    target.mkdir()
    (target / "part-00000.h5").write_text("mine")
    path.symlink_to(target)


def file(path):
    path.write_text("mine")


def broken_link(path):
    path.symlink_to("nowhere")


def folder_with(*names):
    def make(path):
        path.mkdir()
        for name in names:
            (path / name).write_text("mine")

    return make


def tree(folder):
    """All that is in a folder: links, folders, and files with their content."""
    return {
        str(path): path.read_bytes() if path.is_file() else path.is_dir()
        for path in folder.rglob("*")
    }


IN_THE_WAY = [
    *((".v.h5.parts", make) for make in (link, broken_link, file, folder_with("thesis.txt"))),
    (".v.h5.parts", folder_with("part-00000.h5", "part-1.h5")),
    *(("v.h5", make) for make in (folder_with(), link)),
    pytest.param(".v.parquet.parts", link, marks=needs_parquet),
    *(
        pytest.param("v.parquet", make, marks=needs_parquet)
        for make in (
            *(link, broken_link, file, folder_with("thesis.txt")),
            folder_with("part-00000.snappy.parquet"),
        )
    ),
]


@pytest.mark.parametrize("options", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("where, make", IN_THE_WAY)
def test_nothing_of_the_user_is_replaced(tmp_path, where, make, options):
    path = tmp_path / where.removeprefix(".").removesuffix(".parts")
    make(tmp_path / where)
    before = tree(tmp_path)
    message = f"({tmp_path / where} .*(would be overwritten|is not a)|started).* a different name"
    with pytest.raises(FileExistsError, match=message), open_writer(path, SETTINGS, **options):
        pytest.fail("known before")
    assert tree(tmp_path) == before


def test_what_appears_meanwhile_is_not_replaced(path, small_parts):
    """In the folder of parts, and in the place of the output."""
    parts = path.with_name(f".{path.name}.parts")
    for folder, options in ((parts, {}), (path, {"resume": True})):
        with (
            pytest.raises(FileExistsError, match="would be overwritten|is not a"),
            open_writer(path, SETTINGS, **options) as writer,
        ):
            write_blocks(writer, 2)
            folder.mkdir(exist_ok=True)
            (folder / "thesis.txt").write_text("mine")
            writer.finish()
        (folder / "thesis.txt").rename(path.with_name(f"{folder.name}.txt"))
    path.rmdir()
    with open_writer(path, SETTINGS, resume=True) as writer:
        writer.finish()
    assert numbers_in(path) == [0, 1, 2, 3]


@needs_parquet
def test_a_finished_folder_is_ours(tmp_path, small_parts):
    """With what a kill has left in it."""
    path = tmp_path / "v.parquet"
    for stop, options in ((2, {}), (4, {"overwrite": True})):
        with open_writer(path, SETTINGS, **options) as writer:
            write_blocks(writer, stop)
            writer.finish()
        (path / ".partial-0a1b.parquet").write_bytes(b"cut off")
    assert numbers_in(path) == list(range(8))


def test_a_number_beyond_float16_is_an_error(path):
    lines, largest = block(0)[0], np.full((1, 3), 65_504, "float32")
    bad = np.array([[1.0, -65_520.0, 3.0]], "float32")
    good, overflowed = largest.astype("float16"), np.array([[1.0, -np.inf, 3.0]], "float16")
    message = "line 4 have a number beyond the range of float16, 65,504.*float32"
    with pytest.raises(ValueError, match=message), open_writer(path, SETTINGS) as writer:
        writer.write(zip(lines, [good, good]))
        writer.write(zip(lines, [good, overflowed]))
    assert stored_lines(path) == 3
    with open_writer(path, SETTINGS, resume=True) as writer:
        assert writer.num_lines == 3
        writer.finish()
    with open_writer(path.with_name(f"w{path.suffix}"), SETTINGS) as writer:
        writer.write(zip(lines, [bad, bad]))
        writer.finish()


def truncate(part):
    part.write_bytes(part.read_bytes()[:-30])


@pytest.mark.parametrize("damage", [os.unlink, truncate])
def test_a_damaged_part_is_written_again(path, small_parts, damage, caplog):
    write_blocks(killed(path), 4)
    part = path.with_name(f".{path.name}.parts") / f"part-00002{path.suffix}"
    damage(part)
    with open_writer(path, SETTINGS, resume=True) as writer:
        message = caplog.records[0].getMessage()
        assert message.startswith(f"{part} is ") and "What follows the first 4 is" in message
        assert (writer.num_lines, writer.digest) == (4, block(1)[0][-1].digest)
        write_blocks(writer, 5)
        writer.finish()
    assert numbers_in(path) == list(range(10))
    assert os.listdir(path.parent) == [path.name]


def test_a_part_that_cannot_be_joined_is_named(tmp_path, small_parts):
    """A flipped bit in the description of a dataset: the rest of the part can be read."""
    path = tmp_path / "v.h5"
    write_blocks(killed(path), 3)
    part = tmp_path / ".v.h5.parts" / "part-00001.h5"
    with h5py.File(part) as file:
        place = h5py.h5o.get_info(file["2"].id).addr
    content = bytearray(part.read_bytes())
    content[place : place + 4] = b"\xff" * 4
    part.write_bytes(content)
    message = f"{part} is damaged .*Remove it and resume"
    with pytest.raises(ValueError, match=message), open_writer(path, SETTINGS, resume=True) as one:
        one.finish()
    part.unlink()
    with open_writer(path, SETTINGS, resume=True) as writer:
        write_blocks(writer, 3)
        writer.finish()
    assert numbers_in(path) == list(range(6))


@pytest.mark.parametrize("damage", [os.unlink, truncate])
def test_a_damaged_output_is_named(path, small_parts, damage):
    with open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 3)
        writer.finish()
    file = path / "part-00001.parquet" if path.is_dir() else path
    if file == path and damage is os.unlink:
        pytest.skip("the output has one file")
    damage(file)
    for read in (stored_lines, lambda path: killed(path, resume=True)):
        with pytest.raises(ValueError, match=f"{file} is .*: replace it with overwrite=True"):
            read(path)


def test_a_part_ends_after_a_minute(path, monkeypatch):
    seconds = [0]
    monkeypatch.setattr(writers.time, "monotonic", lambda: seconds[0])
    writer = killed(path)
    for number, kept in enumerate((0, 0, 6, 6, 10)):
        write_blocks(writer, number + 1)
        assert stored_lines(path) == kept, number
        seconds[0] += 35


def test_one_process_at_a_time_writes_a_file(path, small_parts):
    """Who comes second changes nothing."""
    for is_first in (True, False):
        with open_writer(path, SETTINGS, resume=True) as writer:
            if not is_first:
                write_blocks(writer, 1)
            for options in ({"resume": True}, {"overwrite": True}):
                before = tree(path.parent)
                with (
                    pytest.raises(BlockingIOError, match=f"Another process is writing {path}: wai"),
                    open_writer(path, SETTINGS, **options),
                ):
                    pytest.fail("locked")
                assert tree(path.parent) == before
            write_blocks(writer, 1)
            writer.finish()
        assert numbers_in(path) == [0, 1]
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("target", ["v.bin", "v.npz", "v.parquet"])
def test_a_link_to_a_file_of_another_format_is_refused(tmp_path, target):
    (tmp_path / "link.h5").symlink_to(tmp_path / target)
    with (
        pytest.raises(ValueError, match=f"is a link to .*{target}: give both the same ending"),
        open_writer(tmp_path / "link.h5", SETTINGS),
    ):
        pytest.fail("known before")


@pytest.mark.parametrize("name", ["v.h5", "./v.h5", "link.h5"])
def test_messages_name_the_output_as_the_user_did(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link.h5").symlink_to(tmp_path / "v.h5")
    fill(open_writer(name, SETTINGS))
    for settings, message in (({"model": "n"}, "made with"), (SETTINGS, "already: choose")):
        with (
            pytest.raises((ValueError, FileExistsError), match=f"^{name} .*{message}"),
            open_writer(name, settings, resume=message == "made with"),
        ):
            pytest.fail("refused")


def test_a_link_to_a_file_is_kept(tmp_path, small_parts):
    target = tmp_path / "large" / "v.h5"
    target.parent.mkdir()
    (tmp_path / "link.h5").symlink_to(target)
    for options in ({}, {"overwrite": True}):
        with open_writer(tmp_path / "link.h5", SETTINGS, **options) as writer:
            write_blocks(writer, 1)
            assert part_names(target) == ["part-00000.h5"]
            writer.finish()
        assert (tmp_path / "link.h5").is_symlink() and numbers_in(target) == [0, 1]
    assert os.listdir(target.parent) == ["v.h5"]


def test_a_file_that_appears_after_a_kill_is_not_replaced(path, small_parts):
    write_blocks(killed(path), 2)
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        killed(path, resume=True)
    path.rename(path.with_name("mine"))
    with open_writer(path, SETTINGS, resume=True) as writer:
        writer.finish()
    assert numbers_in(path) == [0, 1, 2, 3]


def test_a_kill_after_the_output_has_its_name(path, small_parts, monkeypatch):
    writer = killed(path)
    write_blocks(writer, 2)
    with monkeypatch.context() as patch:
        patch.setattr(writers, "replace", lambda *x: [files.replace(*x), 1 / 0])
        with pytest.raises(ZeroDivisionError):
            writer.finish()
    with open_writer(path, SETTINGS, resume=True) as writer:
        assert writer.is_finished
        writer.finish()
    assert numbers_in(path) == [0, 1, 2, 3] and os.listdir(path.parent) == [path.name]


@needs_parquet
def test_the_old_folder_that_a_kill_left_is_removed(tmp_path, small_parts):
    path = tmp_path / "v.parquet"
    with open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 1)
        writer.finish()
    (tmp_path / ".v.parquet.replaced").mkdir()
    with open_writer(path, SETTINGS, resume=True) as writer:
        writer.finish()
    assert os.listdir(tmp_path) == ["v.parquet"]


KILLED = """
import os, sys
from pathlib import Path

import h5py
from keras_elmo import files
from keras_elmo.embedding import formats, writers

sys.path[:0] = [sys.argv[2], os.path.dirname(sys.argv[2])]
from test_writers import SETTINGS, numbers_in, write_blocks

writers._PART_BYTES = 1

def child(path, moment):
    left = moment
    def dying(function):
        def call(*args, **kwargs):
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(9)
            return function(*args, **kwargs)
        return call
    for name in ("fsync", "replace", "rename", "unlink", "rmdir", "mkdir"):
        setattr(os, name, dying(getattr(os, name)))
    h5py.h5o.copy = dying(h5py.h5o.copy)
    with writers.open_writer(path, SETTINGS, resume=True) as writer:
        write_blocks(writer, 3)
        writer.finish()
    os._exit(0)

def kill_at_each_moment(path):
    with writers.open_writer(path, SETTINGS) as writer:  # an older output, which is replaced
        write_blocks(writer, 1)
        writer.finish()
    with writers.open_writer(path, SETTINGS, overwrite=True) as writer:
        write_blocks(writer, 1)
    done = 2
    for moment in range(1, 100):
        process = os.fork()
        if not process:
            child(path, moment)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        before, done = done, writers.stored_lines(path)
        assert done >= before and done % 2 == 0, (moment, before, done)
        if path.exists():
            assert numbers_in(path) in ([0, 1], list(range(6))), moment
        if status == 0:
            break
    assert numbers_in(path) == list(range(6))
    assert os.listdir(path.parent) == [path.name]
    with writers.open_writer(path, SETTINGS, overwrite=True) as writer:
        write_blocks(writer, 1)
        writer.finish()
    assert numbers_in(path) == [0, 1] and os.listdir(path.parent) == [path.name]
    return moment

for name in ("v.h5", "v.parquet"):
    folder = Path(sys.argv[1], name[2:])
    folder.mkdir()
    print(kill_at_each_moment(folder / name))
"""


@needs_parquet
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment(tmp_path):
    """Each run dies one system call later than the one before it, and resumes what that left."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), os.path.dirname(__file__)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
    assert min(map(int, run.stdout.split())) > 5


@pytest.mark.parametrize(
    "name, options, error, message",
    [
        ("v.txt", {}, ValueError, r"must end in \.h5, \.hdf5, \.npz or \.parquet"),
        ("none/v.h5", {}, FileNotFoundError, "none does not exist: create it"),
        ("v.h5", {"compression": "zip"}, ValueError, "must be None or 'gzip', got 'zip'"),
        ("v.h5", {"resume": True, "overwrite": True}, ValueError, "cannot be combined"),
        (
            "v.parquet",
            {},
            ImportError,
            "Parquet files need pyarrow: pip install 'keras-elmo.parquet.'",
        ),
    ],
)
def test_errors(tmp_path, monkeypatch, name, options, error, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(error, match=message), open_writer(tmp_path / name, SETTINGS, **options):
        pytest.fail("known before")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_complete", [False, True])
def test_other_settings_are_refused(path, small_parts, is_complete):
    with contextlib.suppress(KeyboardInterrupt), open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 2)
        if not is_complete:
            raise KeyboardInterrupt
        writer.finish()
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ValueError, match="made with dtype='float32' and a different model"):
        killed(path, {"model": "n", "dtype": "float16"}, resume=True)
    assert sorted(path.parent.rglob("*")) == before
