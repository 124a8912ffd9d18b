"""Files of word vectors."""

import contextlib
import hashlib
import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from keras_elmo.embedding import writers
from keras_elmo.embedding.writers import open_writer, stored_lines
from keras_elmo.text.reader import Record

LAYERS = [
    np.arange(12, dtype="float32").reshape(2, 2, 3),
    np.zeros((2, 0, 3), "float32"),
    np.ones((2, 1, 3), "float32"),
]
TOKENS = [["a", b"b\xff"], [], ["c"]]
SETTINGS = {"model": "m", "dtype": "float32"}
needs_parquet = pytest.mark.needs("pyarrow")
NAMES = ["v.h5", pytest.param("v.parquet", marks=needs_parquet)]


def records(tokens=TOKENS, digest="d"):
    return [Record([list(line)], None if line else "no words", digest, 0) for line in tokens]


def fill(writer, arrays=LAYERS):
    with writer:
        writer.write(records()[: len(arrays)], arrays)
        writer.finish()


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
        writer.write(*block(number))


def numbers_in(path):
    """The numbers in a file of `block`s, in the order of its lines."""
    if path.suffix == ".parquet":
        rows = read_parquet(path)
        assert [row["line"] for row in rows] == list(range(len(rows)))
        return [int(row["vectors"][0][0]) for row in rows]
    with h5py.File(path) as file:
        return [int(file[str(i)][0, 0]) for i in range(len(file))]


def read_parquet(path):
    import pyarrow.parquet as parquet

    return parquet.read_table(path).to_pylist()


def part_names(path):
    folder = path.with_name(f".{path.name}.parts")
    return sorted(os.listdir(folder)) if folder.exists() else None


@pytest.fixture(params=NAMES)
def path(tmp_path, request):
    return tmp_path / request.param


@pytest.fixture(autouse=True)
def no_locks(request, monkeypatch):
    """Writers that are given up, as by a kill, would hold their locks."""
    if "one_process_at_a_time" not in request.node.name:
        monkeypatch.setattr(writers, "locked", lambda *_: contextlib.nullcontext())


@pytest.fixture
def small_parts(monkeypatch):
    """A part for each block."""
    monkeypatch.setattr(writers, "_PART_BYTES", 1)


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_hdf5(tmp_path, dtype, compression):
    path = tmp_path / "v.h5"
    fill(open_writer(path, {**SETTINGS, "dtype": dtype}, compression=compression))
    with h5py.File(path) as file:
        assert sorted(file) == ["0", "1", "2"]
        for i, array in enumerate(LAYERS):
            np.testing.assert_array_equal(file[str(i)][()], array)
            assert file[str(i)].dtype == dtype
        assert file["0"].compression == compression
        assert file["1"].attrs["error"] == "no words"
        assert not file["0"].attrs
    assert [found.name for found in tmp_path.iterdir()] == ["v.h5"]


@needs_parquet
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("take", [lambda x: x, lambda x: x[0], lambda x: x.sum(axis=(0, 1))])
def test_parquet(tmp_path, dtype, take):
    arrays = list(map(take, LAYERS))
    fill(open_writer(tmp_path / "v.parquet", {**SETTINGS, "dtype": dtype}), arrays)
    rows = read_parquet(tmp_path / "v.parquet")
    assert [row["line"] for row in rows] == [0, 1, 2]
    assert [row["tokens"] for row in rows] == [["a", "b"], [], ["c"]]
    assert [row["error"] for row in rows] == [None, "no words", None]
    for row, array in zip(rows, arrays):
        np.testing.assert_array_equal(np.reshape(row["vectors"], array.shape), array)


def test_a_run_resumes_after_each_part(path, small_parts):
    """Each run writes one more part, and ends without a word as a killed one does."""
    for done in range(4):
        writer = open_writer(path, SETTINGS, resume=done > 0)
        assert writer.num_lines == stored_lines(path) == 2 * done
        write_blocks(writer, done + 1)
        assert not path.exists()
    with pytest.raises(FileExistsError, match="was started. Continue it with resume=True"):
        open_writer(path, SETTINGS)
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
        assert part_names(path) == []  # small blocks share a part
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


@pytest.mark.parametrize("function", ["_write_part", "_join"])
def test_a_full_disk_keeps_the_parts_before(path, small_parts, monkeypatch, function):
    """In the middle of a part, or of the file."""
    if path.suffix == ".parquet" and function == "_join":
        pytest.skip("its parts are the file")
    with (
        pytest.raises(OSError, match="No space left on device"),
        monkeypatch.context() as patch,
        open_writer(path, SETTINGS) as writer,
    ):
        write_blocks(writer, 2)
        original = getattr(type(writer), function)

        def half(self, *args):
            original(self, *args)
            full()

        patch.setattr(type(writer), function, half)
        write_blocks(writer, 3)
        writer.finish()
    assert stored_lines(path) == (4 if function == "_write_part" else 6)
    assert not path.exists()
    assert all(name.startswith(("part-", "joined")) for name in part_names(path))
    with open_writer(path, SETTINGS, resume=True) as writer:
        write_blocks(writer, 3)
        writer.finish()
    assert numbers_in(path) == list(range(6))
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("content", ["ours", "foreign"])
def test_an_existing_file_stays_until_it_is_replaced(path, small_parts, content):
    if content == "ours":
        fill(open_writer(path, SETTINGS))
    else:
        path.write_bytes(b"mine")

    def state():
        files = [path] if path.is_file() else sorted(path.iterdir())
        return [(file.name, file.read_bytes()) for file in files]

    before = state()
    with pytest.raises(FileExistsError, match="Continue it with resume=True, .* or choose another"):
        open_writer(path, SETTINGS)
    if content != "ours":
        with pytest.raises(ValueError, match="not .* keras_elmo"):
            open_writer(path, SETTINGS, resume=True)
    write_blocks(
        open_writer(path, {**SETTINGS, "model": "n"}, overwrite=True), 3
    )  # what is forgotten
    with pytest.raises(ValueError, match="different model"):
        open_writer(path, SETTINGS, resume=True)
    write_blocks(open_writer(path, SETTINGS, overwrite=True), 2)
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
    *(("v.h5", make) for make in (folder_with(), link, broken_link)),
    pytest.param(".v.parquet.parts", link, marks=needs_parquet),
    *(
        pytest.param("v.parquet", make, marks=needs_parquet)
        for make in (
            *(link, broken_link, folder_with("thesis.txt")),
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
    message = f"{path} .*({tmp_path / where}, which is replaced|not a file).* choose another"
    with pytest.raises(FileExistsError, match=message):
        open_writer(path, SETTINGS, **options)
    assert tree(tmp_path) == before


def test_what_appears_meanwhile_is_not_replaced(path, small_parts):
    """In the folder of parts, and in the place of the output."""
    parts = path.with_name(f".{path.name}.parts")
    for folder, options in ((parts, {}), (path, {"resume": True})):
        with (
            pytest.raises(FileExistsError, match="cannot be written|is not a file"),
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
    lines, arrays = block(0)
    good, bad = arrays[0], np.array([[1.0, -65_520.0, 3.0]], "float32")
    message = "line 4 have a number beyond the range of float16, 65,504.*float32"
    settings = {**SETTINGS, "dtype": "float16"}
    with pytest.raises(ValueError, match=message), open_writer(path, settings) as writer:
        writer.write(lines, [good, good])
        writer.write(lines, [np.full((1, 3), 65_504, "float32"), bad])
    assert stored_lines(path) == 3
    with open_writer(path, settings, resume=True) as writer:
        assert writer.num_lines == 3
        writer.finish()
    with open_writer(path.with_name(f"w{path.suffix}"), SETTINGS) as writer:
        writer.write(lines, [bad, bad])
        writer.finish()


@pytest.mark.parametrize("is_complete", [False, True])
def test_a_missing_part_is_noticed(path, small_parts, is_complete):
    writer = open_writer(path, SETTINGS)
    write_blocks(writer, 3)
    folder = path.parent / f".{path.name}.parts"
    if is_complete:
        if path.suffix != ".parquet":
            pytest.skip("a complete file has no parts")
        writer.finish()
        folder = path
    (folder / f"part-00001{path.suffix}").unlink()
    for read in (stored_lines, lambda path: open_writer(path, SETTINGS, resume=True)):
        with pytest.raises(ValueError, match="part-00001.* is missing. Restore it"):
            read(path)


def test_a_damaged_part_is_noticed(path, small_parts):
    write_blocks(open_writer(path, SETTINGS), 2)
    part = path.parent / f".{path.name}.parts" / f"part-00001{path.suffix}"
    part.write_bytes(part.read_bytes()[:-30])
    with pytest.raises(ValueError, match="part-00001.* is damaged, or was not written by this"):
        open_writer(path, SETTINGS, resume=True)


def test_one_process_at_a_time_writes_a_file(path, small_parts):
    with open_writer(path, SETTINGS, resume=True) as writer:
        write_blocks(writer, 1)
        with pytest.raises(BlockingIOError, match=f"Another process is writing {path}: wait"):
            open_writer(path, SETTINGS, resume=True)
        writer.finish()
    assert numbers_in(path) == [0, 1]
    with open_writer(path, SETTINGS, resume=True):
        pass
    assert os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


KILLED = """
import os, sys
from pathlib import Path

import h5py
from keras_elmo.embedding import writers

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
    left = set(os.listdir(path.parent)) - {f".{path.name}.replaced"}
    assert left == {path.name}, left
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
        ("v.txt", {}, ValueError, r"must end in \.h5, \.hdf5 or \.parquet"),
        ("none/v.h5", {}, FileNotFoundError, "none does not exist: create it"),
        ("v.h5", {"compression": "zip"}, ValueError, "must be None or 'gzip', got 'zip'"),
        ("v.h5", {"resume": True, "overwrite": True}, ValueError, "exclude each other"),
        ("v.parquet", {}, ImportError, "Parquet files need pyarrow: pip install pyarrow"),
    ],
)
def test_errors(tmp_path, monkeypatch, name, options, error, message):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(error, match=message):
        open_writer(tmp_path / name, SETTINGS, **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_complete", [False, True])
def test_other_settings_are_refused(path, small_parts, is_complete):
    with contextlib.suppress(KeyboardInterrupt), open_writer(path, SETTINGS) as writer:
        write_blocks(writer, 2)
        if not is_complete:
            raise KeyboardInterrupt
        writer.finish()
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ValueError, match="made with a different dtype and a different model"):
        open_writer(path, {"model": "n", "dtype": "float16"}, resume=True)
    assert sorted(path.parent.rglob("*")) == before
