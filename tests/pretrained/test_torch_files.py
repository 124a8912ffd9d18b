"""Files of torch.save: read as PyTorch reads them, and without running anything."""

import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest

from keras_elmo.pretrained.hdf5 import read_float32
from keras_elmo.pretrained.torch_files import read_state_dict
from many_languages import MANY_LANGUAGES, VARIANTS

VALUES = np.arange(6, dtype="<f4")


class Name(NamedTuple):
    """A global in a pickle, such as "torch FloatStorage"."""

    name: str


class Call(NamedTuple):
    function: Name
    arguments: tuple = ()


class Storage(NamedTuple):
    """An object that torch.save stores outside of the pickle."""

    key: object = "0"
    count: object = 6
    kind: object = Name("torch FloatStorage")
    tag: str = "storage"
    view: object = None


ORDERED_DICT = Name("collections OrderedDict")
REBUILD = Name("torch._utils _rebuild_tensor_v2")


def dumped(value):
    """A pickle of the value, with any names in it, which nothing imports."""

    def instructions(x):
        if isinstance(x, Name):
            return f"c{x.name.replace(' ', chr(10))}\n".encode()
        if isinstance(x, Call):
            return instructions(x.function) + instructions(x.arguments) + b"R"
        if isinstance(x, Storage):
            return instructions((x.tag, x.kind, x.key, "cpu", x.count, x.view)) + b"Q"
        if isinstance(x, (tuple, list, dict)):
            items = [y for pair in x.items() for y in pair] if isinstance(x, dict) else x
            end = {tuple: b"t", list: b"l", dict: b"d"}[type(x)]
            return b"(" + b"".join(map(instructions, items)) + end
        return pickle.dumps(x, 2)[2:-1]

    return b"\x80\x02" + instructions(value) + b"."


def tensor(shape=(2, 3), strides=(3, 1), offset=0, **of_storage):
    arguments = (Storage(**of_storage), offset, shape, strides, False, Call(ORDERED_DICT))
    return Call(REBUILD, arguments)


def legacy(path, state, keys=("0",), little_endian=True, count=6):
    """Writes a file of the old format, whose state is a value or the bytes of a pickle."""
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": little_endian}, state, list(keys)]
    pickles = [part if isinstance(part, bytes) else dumped(part) for part in parts]
    one = struct.pack("<q", count) + VALUES.tobytes()
    path.write_bytes(b"".join(pickles) + one * len(keys))
    return path


def zipped(path, state, members=()):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("m/data.pkl", state if isinstance(state, bytes) else dumped(state))
        for name, data in dict(members or {"m/data/0": VALUES.tobytes()}).items():
            file.writestr(name, data)
    return path


both_formats = pytest.mark.parametrize("write", [legacy, zipped])


def refused(path, message):
    with pytest.raises(ValueError, match=message) as error:
        read_state_dict(path)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 1000 + len(str(path))


# What PyTorch writes.


@pytest.mark.parametrize("is_zip", [False, True], ids=["pickles", "zip"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.needs("torch")
def test_state_dicts_of_pytorch_are_read(tmp_path, is_zip, dtype):
    import torch

    weights = torch.randn(6, 5, dtype=getattr(torch, dtype))
    state = OrderedDict(
        whole=weights,
        transposed=weights.T,
        sliced=weights[1:4, 2:],
        stepped=weights[::2, ::3],
        one=weights[2, 2],
        empty=weights[:0],
        other=torch.ones(3, dtype=weights.dtype),
    )
    path = tmp_path / "state.pkl"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    arrays = read_state_dict(path)
    assert list(arrays) == list(state)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, state[name].numpy())
        assert array.dtype == dtype and not array.flags.writeable
    module = torch.nn.LSTM(2, 4)  # whose state dict has attributes
    torch.save(module.state_dict(), path, _use_new_zipfile_serialization=is_zip)
    assert read_state_dict(path).keys() == module.state_dict().keys()


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.needs("torch")
def test_golden_files_have_the_values_of_pytorch(variant, name):
    import torch

    path = MANY_LANGUAGES / variant / name
    expected = torch.load(path, map_location="cpu", weights_only=True)
    arrays = read_state_dict(path)
    assert list(arrays) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value.numpy())


@both_formats
def test_files_made_by_hand_are_read(tmp_path, write):
    path = write(tmp_path / "m", Call(ORDERED_DICT, ([("w", tensor())],)))
    np.testing.assert_array_equal(read_state_dict(path)["w"], VALUES.reshape(2, 3))


def test_nothing_else_is_imported(tmp_path):
    path = legacy(tmp_path / "m", {"w": tensor()})
    program = (
        "import sys; from keras_elmo.pretrained.torch_files import read_state_dict\n"
        f"read_state_dict({str(path)!r})['w'].sum()\n"
        "print({'torch', 'tensorflow', 'keras'} & sys.modules.keys())"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "set()", found.stderr


# Files that would run something.


class Evil:
    """Calls a function with arguments as soon as it is unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def marks(folder):
    """Calls that leave a mark, with the names that a pickle gives their functions."""
    mark = folder / "mark"
    return mark, [
        (Evil(os.system, f"touch {mark}"), rf"{os.system.__module__}\.system"),
        (Evil(eval, f"open({str(mark)!r}, 'w')"), r"(__builtin__|builtins)\.eval"),
        (Evil(open, str(mark), "w"), r"(io|_io)\.open"),
        (Evil(np.save, str(mark), 1), r"numpy\.save"),
        (Evil(os.mkdir, str(mark)), rf"{os.mkdir.__module__}\.mkdir"),
        (Evil(subprocess.call, ["touch", str(mark)]), r"(subprocess|commands)\.call"),
    ]


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize("protocol", [0, 2, 4])
@both_formats
def test_nothing_in_a_file_is_run(tmp_path, which, write, protocol):
    mark, evils = marks(tmp_path)
    evil, name = evils[which]
    for state in (evil, {"w": evil}, OrderedDict(w=[evil])):
        path = write(tmp_path / "m", pickle.dumps(state, protocol))
        refused(path, rf"it names the Python object {name}\. Nothing in it was run")
        assert not mark.exists()


@pytest.mark.parametrize(
    "state",
    [
        b"(S'touch mark'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nX\x01\x00\x00\x00ao.",  # OBJ
        b"cos\nsystem\n)\x81.",  # NEWOBJ
        b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93)R.",  # STACK_GLOBAL
        b"ctorch\nsave\n)R.",
        b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
        b"ccollections\nOrderedDict.fromkeys\n.",
        b"ctorch\nFloatStorage\n)R.",
        b"ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00a}sb.",
        b"ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsccollections\nOrderedDict\nsb.",
        b"\x82\x01)R.",  # EXT1
        b"Pname\n.",  # PERSID
        b"\x8b\xff\xff\xff\x7f.",  # LONG4
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",  # BINUNICODE8
    ],
)
@both_formats
def test_other_ways_to_reach_python_are_refused(tmp_path, state, write):
    if b"items" in state:  # an attribute that hides a method: an empty dict
        assert read_state_dict(write(tmp_path / "m", b"\x80\x02" + state, ())) == {}
    else:
        refused(write(tmp_path / "m", b"\x80\x02" + state), "Nothing in it was run")


# Files that lie.


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (tensor((7,), (1,)), "larger than its storage"),
        (tensor((2, 3), (1,)), "Nothing in it was run"),
        (tensor((2, 3), (4, 1)), "larger than its storage"),
        (tensor((2, 3), (3, 2)), "larger than its storage"),
        (tensor((2, 3), offset=1), "larger than its storage"),
        (tensor((2, 3), (-3, 1)), "a negative size"),
        (tensor((-2, 3)), "a negative size"),
        (tensor(offset=-1), "a negative size"),
        (tensor(("2", 3)), "Nothing in it was run"),
        (tensor((1 << 70,), (1,)), "larger than its storage"),
        (tensor((1,), (1 << 70,)), "Nothing in it was run"),
        (tensor((6,), None), "Nothing in it was run"),
        (tensor(key=[]), "Nothing in it was run"),
        (tensor(kind="torch FloatStorage"), "a storage in an unknown format"),
        (tensor(kind=ORDERED_DICT), "a storage in an unknown format"),
        (tensor(tag="module"), "a storage in an unknown format"),
        (tensor(view=("1", 0, 3)), "a storage in an unknown format"),
        (tensor(kind=Name("torch LongStorage")), r"Python object torch\.LongStorage"),
        (Call(REBUILD, (None, 0, (2, 3), (3, 1), False, None)), "a tensor in an unknown format"),
        (Call(REBUILD, (Storage(),)), "Nothing in it was run"),
    ],
)
@both_formats
def test_tensors_that_cannot_be_are_refused(tmp_path, wrong, message, write):
    refused(write(tmp_path / "m", {"w": wrong}), message)


@pytest.mark.parametrize("state", [{1: tensor()}, {"w": 1}, [], (), "w", tensor()])
@both_formats
def test_what_is_no_state_dict_is_refused(tmp_path, state, write):
    refused(write(tmp_path / "m", state), "is not a complete torch.save file of float tensors")


def test_storages_unlike_those_in_the_pickle_are_refused(tmp_path):
    path, state = tmp_path / "m", {"w": tensor()}
    refused(legacy(path, state, keys=()), "is not a complete torch.save file")
    refused(legacy(path, state, keys=("0", "1")), "is not a complete torch.save file")
    refused(legacy(path, state, count=5), "larger than its storage")
    for count in (-6, 1 << 30, 1 << 62):
        refused(legacy(path, state, count=count), "it ends too early")
    refused(legacy(path, state, count=100), "greater than file size")
    refused(legacy(path, state, little_endian=False), "with little-endian numbers")
    refused(zipped(path, state, {"m/data/1": b""}), "There is no item named 'm/data/0'")
    refused(zipped(path, state, {"m/data/0": bytes(23)}), "Nothing in it was run")
    refused(zipped(path, state, {"m/data/0": bytes(20)}), "larger than its storage")
    refused(zipped(path, state, {"n/data.pkl": b""}), "is not a complete torch.save file")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_no_weight_has_are_refused(tmp_path, monkeypatch, value):
    wrong = VALUES.copy()
    wrong[4] = value
    monkeypatch.setitem(globals(), "VALUES", wrong)
    array = read_state_dict(legacy(tmp_path / "m", {"w": tensor()}))["w"]
    with pytest.raises(ValueError, match="The array w holds NaN, infinity or numbers beyond float"):
        read_float32(array, "The array w")


# Damage.


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    whole = (MANY_LANGUAGES / "word_char" / "token_embedder.pkl").read_bytes()
    path = tmp_path / "m"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path, rf"\({length:,} bytes\) is not a complete torch.save file .* Download it")


@both_formats
def test_flipped_bytes_are_a_clear_error_or_different_numbers(tmp_path, write):
    path, errors = write(tmp_path / "m", {"w": tensor()}), 0
    whole, random = path.read_bytes(), np.random.default_rng(0)
    for position in random.integers(0, len(whole), 500):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        try:
            read_state_dict(path)
        except ValueError as error:
            errors += 1
            assert str(path) in str(error)
    assert errors > 30


def test_a_changed_number_in_a_zip_is_found(tmp_path):
    whole = zipped(tmp_path / "m", {"w": tensor()}).read_bytes()
    (tmp_path / "m").write_bytes(whole.replace(VALUES.tobytes(), VALUES[::-1].tobytes()))
    refused(tmp_path / "m", "is not a complete torch.save file .* CRC-32")


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"<html>404</html>", b"cos\nsystem\n(S'ls'\ntR.", b"PK\x03\x04", bytes(9999)],
)
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "m").write_bytes(content)
    refused(tmp_path / "m", rf"m \({len(content):,} bytes\) is not a complete torch.save file")


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        read_state_dict(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        refused(path, "is not a regular file: expected a file written by torch.save")
