"""Writing hdf5 files, also where the disk is full."""

import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from keras_elmo import hdf5_write
from keras_elmo.hdf5_write import write_hdf5

OPEN = h5py.h5f.OBJ_FILE | h5py.h5f.OBJ_DATASET | h5py.h5f.OBJ_GROUP


def add(numbers, compression=None):
    def write(file):
        for number in numbers:
            array = np.full((8, 64), number, "float32")
            dataset = file.create_dataset(str(number), data=array, compression=compression)
            dataset.attrs["number"] = number

    return write


def numbers_in(path):
    with h5py.File(path) as file:
        return sorted(int(file[name][0, 0]) for name in file)


def test_arrays_keep_their_order_and_equal_files_are_equal_bytes(tmp_path):
    names = [str(i) for i in range(12)]
    contents = []
    for path in (tmp_path / "1.h5", tmp_path / "2.h5"):
        write_hdf5(path, lambda file: file.update(dict.fromkeys(names[:6], 1.0)))
        time.sleep(1.1)  # HDF5 stores times in seconds
        write_hdf5(path, lambda file: file.update(dict.fromkeys(names[6:], 1.0)), append=True)
        with h5py.File(path) as file:
            assert list(file) == names
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]


@pytest.fixture
def writes(monkeypatch):
    """Counts what HDF5 writes, from `writes.full_at` on to a full disk."""

    class Writes:
        count, full_at = 0, float("inf")

    original = hdf5_write._File._write_all

    def counted(self, data):
        Writes.count += 1
        if Writes.count >= Writes.full_at:
            raise OSError(28, "No space left on device")
        original(self, data)

    monkeypatch.setattr(hdf5_write._File, "_write_all", counted)
    return Writes


def test_writes_new_files_and_to_existing_ones(tmp_path):
    path = tmp_path / "v.h5"
    path.write_bytes(b"old")
    write_hdf5(path, add(range(3)))
    assert numbers_in(path) == [0, 1, 2]
    write_hdf5(path, add(range(3, 5)), append=True)
    assert numbers_in(path) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("full_at", [1, 50])
def test_a_full_disk_while_many_datasets_are_written(tmp_path, writes, full_at):
    writes.full_at = full_at  # HDF5 then reads back what was never written
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_hdf5(tmp_path / "v.h5", add(range(10_000)))
    assert raised.value.errno == 28


def test_a_disk_that_is_full_at_any_moment(tmp_path, writes, capfd):
    """No message of HDF5, and no file that it cannot close; afterwards it works again."""
    path = tmp_path / "v.h5"

    def write_twice():
        write_hdf5(path, add(range(20), "gzip"))
        write_hdf5(path, add(range(20, 40), "gzip"), append=True)

    write_twice()
    total = writes.count
    assert total > 40
    for moment in range(1, total + 1):
        writes.count, writes.full_at = 0, moment
        with pytest.raises(OSError, match="No space left on device: .*v.h5") as caught:
            write_twice()
        assert caught.value.errno == 28
    writes.full_at = float("inf")
    write_twice()
    assert numbers_in(path) == list(range(40))
    assert not h5py.h5f.get_obj_count(types=OPEN)
    assert capfd.readouterr().err == ""


def test_an_error_of_the_caller_is_raised(tmp_path):
    def write(file):
        file["0"] = np.zeros(9)
        raise ValueError("not a number")

    with pytest.raises(ValueError, match="not a number"):
        write_hdf5(tmp_path / "v.h5", write)
    assert not h5py.h5f.get_obj_count(types=OPEN)


INTERRUPTED = """
import signal, sys
import numpy as np
from keras_elmo import hdf5_write

original, left = hdf5_write._File._write_all, int(sys.argv[2])

def interrupted(self, data):
    global left
    left -= 1
    if not left:
        signal.raise_signal(signal.SIGINT)
    original(self, data)

def write(file):
    for i in range(20):
        file[str(i)] = np.zeros((8, 64))

hdf5_write._File._write_all = interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
try:
    hdf5_write.write_hdf5(sys.argv[1], write)
    for _ in range(1000):  # where Python looks for signals
        pass
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("moment", [1, 25])
def test_ctrl_c_leaves_python_sound(tmp_path, moment):
    command = [sys.executable, "-c", INTERRUPTED, tmp_path / "v.h5", str(moment)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "interrupted\n", "")


LIMITED = """
import os, resource, sys
from pathlib import Path
import numpy as np
from keras_elmo.embedding import writers
from keras_elmo.embedding.writers import open_writer, stored_lines
from keras_elmo.files import atomic_write
from keras_elmo.hdf5_write import write_arrays
from keras_elmo.text.reader import Record

folder, writers._PART_BYTES = Path(sys.argv[1]), 1 << 20

def limit(num_bytes):
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, resource.RLIM_INFINITY))

def embed(**options):
    with open_writer(folder / "v.h5", {"dtype": "float32"}, **options) as writer:
        while writer.num_lines < 300:
            record = Record([["a"]], None, str(writer.num_lines), 0)
            writer.write([(record, np.ones((2, 9, 256), "float32"))])
        writer.finish()

def write_words():
    with atomic_write(folder / "w.h5") as partial:
        write_arrays(partial, [("a", np.ones((1 << 20, 1), "float32"))])

def fails(name, function, *args, **options):
    try:
        function(*args, **options)
    except OSError as error:
        print(name, error.errno, sorted(os.listdir(folder)))

limit(1 << 19)  # less than a part
fails("part", embed)
limit(3 << 20)  # more than a part, less than the joined file
fails("join", embed)
print(stored_lines(folder / "v.h5"))
fails("words", write_words)
limit(resource.RLIM_INFINITY)
embed(resume=True)
print(stored_lines(folder / "v.h5"), sorted(os.listdir(folder)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="sets a limit on the size of files")
def test_files_that_cannot_grow(tmp_path):
    """As on a full disk: in a part, in the joined file, in a file of word vectors."""
    run = subprocess.run([sys.executable, "-c", LIMITED, tmp_path], capture_output=True, text=True)
    kept = "The vectors of the first 300 lines are kept: resuming continues after them.\n"
    assert (run.returncode, run.stderr) == (0, kept)
    assert run.stdout.splitlines() == [
        "part 27 []",
        "join 27 ['.v.h5.parts']",
        "300",
        "words 27 ['.v.h5.parts']",
        "300 ['v.h5']",
    ]
