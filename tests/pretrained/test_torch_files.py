"""Files of torch.save: read as PyTorch reads them, and without running anything."""

import os
import pickle
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest

from helpers import GOLDEN
from keras_elmo.pretrained.plain_pickle import Call, External, GlobalName, dump_pickle
from keras_elmo.pretrained.torch_files import open_state_dict, read_matrix, write_state_dict

MANY_LANGUAGES = GOLDEN.with_name("many_languages")
ORDERED_DICT = GlobalName("collections OrderedDict")
REBUILD = GlobalName("torch._utils _rebuild_tensor_v2")
FLOATS = GlobalName("torch FloatStorage")
VALUES = np.arange(6, dtype="<f4")


def arrays_of(path):
    with open_state_dict(path) as tensors:
        assert all(tensor.name == name for name, tensor in tensors.items())
        return {name: tensor.read() for name, tensor in tensors.items()}


def storage(key="0", count=6, kind=FLOATS, tag="storage", view=None):
    return External((tag, kind, key, "cpu", count, view))


def tensor(shape=(2, 3), strides=(3, 1), offset=0, **of_storage):
    return Call(REBUILD, (storage(**of_storage), offset, shape, strides, False, Call(ORDERED_DICT)))


def legacy(path, state, keys=("0",), data=None, little_endian=True, count=6):
    """Writes a file of the old format, whose state is a value or the bytes of a pickle."""
    system = {"protocol_version": 1001, "little_endian": little_endian}
    parts = [0x1950A86A20F9469CFC6C, 1001, system, state, list(keys)]
    pickles = [part if isinstance(part, bytes) else dump_pickle(part) for part in parts]
    one = struct.pack("<q", count) + VALUES.tobytes()
    path.write_bytes(b"".join(pickles) + (one * len(keys) if data is None else data))
    return path


def zipped(path, state, members=(), compression=zipfile.ZIP_STORED):
    state = state if isinstance(state, bytes) else dump_pickle(state)
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr("m/data.pkl", state)
        for name, data in dict(members or {"m/data/0": VALUES.tobytes()}).items():
            file.writestr(name, data)
    return path


def refused(path, message, read=open_state_dict):
    """Expects the message, which names the file, from one reader or from both."""
    with pytest.raises(ValueError, match=message) as error:
        arrays_of(path) if read is open_state_dict else read(path)
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 1000 + len(str(path))


# What PyTorch writes and reads.


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("is_zip", [False, True], ids=["pickles", "zip"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_state_dicts_of_pytorch_are_read(torch, tmp_path, is_zip, dtype):
    weights = torch.randn(6, 5, dtype=getattr(torch, dtype))
    state = OrderedDict(
        whole=weights,
        transposed=weights.T,
        sliced=weights[1:4, 2:],
        stepped=weights[::2, ::3],
        column=weights[:, 3],
        one=weights[2, 2],
        empty=weights[:0],
        single_row=weights[2:3],
        other=torch.ones(3, dtype=weights.dtype),
    )
    path = tmp_path / "state.pkl"
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    with open_state_dict(path) as tensors:
        assert list(tensors) == list(state)
        assert {name: tensor.shape for name, tensor in tensors.items()} == {
            name: tuple(value.shape) for name, value in state.items()
        }
        assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(dtype)}
        assert tensors["sliced"].path == str(path)
    for name, array in arrays_of(path).items():
        np.testing.assert_array_equal(array, state[name].float().numpy())
        assert array.dtype == "float32" and array.shape == state[name].shape
        assert array.flags.c_contiguous and array.flags.writeable


@pytest.mark.parametrize("is_zip", [False, True], ids=["pickles", "zip"])
def test_state_dicts_of_modules_are_read(torch, tmp_path, is_zip):
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.LSTM(2, 4))
    torch.save(module.state_dict(), tmp_path / "m", _use_new_zipfile_serialization=is_zip)
    arrays = arrays_of(tmp_path / "m")
    assert arrays.keys() == module.state_dict().keys()
    for name, value in module.state_dict().items():
        np.testing.assert_array_equal(arrays[name], value.numpy())


def test_checksums_that_pytorch_was_told_to_leave_out_are_not_missed(torch, tmp_path):
    before = torch.serialization.get_crc32_options()
    try:
        torch.serialization.set_crc32_options(False)
        torch.save({"w": torch.ones(3)}, tmp_path / "m")
    finally:
        torch.serialization.set_crc32_options(before)
    np.testing.assert_array_equal(arrays_of(tmp_path / "m")["w"], np.ones(3))


@pytest.mark.parametrize("name", ["encoder.pkl", "token_embedder.pkl"])
@pytest.mark.parametrize("variant", ["word_char", "char_only", "tanh_clips", "word_only"])
def test_golden_files_give_the_values_of_pytorch(torch, variant, name):
    path = MANY_LANGUAGES / variant / name
    expected = torch.load(path, map_location="cpu", weights_only=True)
    arrays = arrays_of(path)
    assert list(arrays) == list(expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(arrays[key], value.numpy())


STATE = {
    "encoder.weight": np.linspace(-1, 1, 24, dtype="float32").reshape(2, 3, 4),
    "bias ß": np.ones(5, "float64"),
    "scalar": np.array(2.5, "float32"),
    "nothing": np.zeros((0, 3), "float32"),
    "transposed": np.arange(6, dtype="float32").reshape(2, 3).T,
}


def lazily(state):
    return [(name, array.shape, lambda array=array: array) for name, array in state.items()]


def test_what_is_written_is_read_back(tmp_path):
    write_state_dict(tmp_path / "m.pkl", lazily(STATE))
    arrays = arrays_of(tmp_path / "m.pkl")
    assert list(arrays) == list(STATE)
    for name, array in STATE.items():
        assert arrays[name].dtype == "float32" and arrays[name].shape == array.shape
        np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("weights_only", [True, False])
def test_pytorch_reads_what_is_written(torch, tmp_path, weights_only):
    write_state_dict(tmp_path / "m.pkl", lazily(STATE))
    loaded = torch.load(tmp_path / "m.pkl", weights_only=weights_only)
    assert type(loaded) is OrderedDict and list(loaded) == list(STATE)
    for name, array in STATE.items():
        assert loaded[name].dtype == torch.float32 and not loaded[name].requires_grad
        np.testing.assert_array_equal(loaded[name].numpy(), array)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.pkl"
    path.write_text("old")
    with pytest.raises(ValueError, match=r"w was to be written as \(3,\), but it is \(4,\)"):
        write_state_dict(path, [("w", (3,), lambda: np.ones(4))])
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["m.pkl"]


def test_a_state_dict_is_read_and_written_without_pytorch_and_tensor_by_tensor(tmp_path):
    pytest.importorskip("resource")
    program = f"""
import resource, sys
import numpy as np
from keras_elmo.pretrained.torch_files import open_state_dict, write_state_dict

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
one = 1 << 23
write_state_dict({str(tmp_path / "m")!r}, [
    (str(i), (one,), lambda i=i: np.full(one, i, "float32")) for i in range(8)
])
with open_state_dict({str(tmp_path / "m")!r}) as tensors:
    for name, tensor in tensors.items():
        assert tensor.read()[7] == int(name)
assert peak() - before < 4 * one * 2.5, (peak() - before) / one / 4
assert not {{"torch", "tensorflow", "keras"}} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# Matrices.


@pytest.mark.parametrize("is_zip", [False, True], ids=["pickles", "zip"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["tensor", "array"])
def test_matrices_of_pytorch_and_numpy_are_read(torch, tmp_path, is_zip, dtype, order, kind):
    matrix = np.asarray(np.random.default_rng(0).normal(size=(12, 12)).astype(dtype), order=order)
    value = torch.from_numpy(matrix) if kind == "tensor" else matrix
    torch.save(value, tmp_path / "en.pth", _use_new_zipfile_serialization=is_zip)
    read = read_matrix(tmp_path / "en.pth")
    assert read.dtype == "float32" and read.flags.c_contiguous and read.flags.writeable
    np.testing.assert_array_equal(read, matrix.astype("float32"))


def numpy_array(module="numpy.core.multiarray", dtype="f4", data=None, size=2, order="<"):
    """A pickled array as NumPy 1 wrote it, or a damaged or foreign one."""
    head = dump_pickle(
        Call(GlobalName(f"{module} _reconstruct"), (GlobalName("numpy ndarray"), (0,), "b"))
    )[2:-1]
    kind = dump_pickle(Call(GlobalName("numpy dtype"), (dtype, 0, 1)))[2:-1]
    kind += dump_pickle((3, order, None, None, None, -1, -1, 0))[2:-1] + pickle.BUILD
    data = VALUES[:4].tobytes() if data is None else data
    raw = pickle.SHORT_BINSTRING + bytes([len(data)]) + data
    state = pickle.MARK + dump_pickle(1)[2:-1] + dump_pickle((size, size))[2:-1]
    state += kind + dump_pickle(False)[2:-1] + raw + pickle.TUPLE
    return b"\x80\x02" + head + state + pickle.BUILD + b"."


def test_an_array_pickled_by_python_2_is_read(tmp_path):
    path = legacy(tmp_path / "m", numpy_array(), keys=())
    np.testing.assert_array_equal(read_matrix(path), VALUES[:4].reshape(2, 2))


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (tensor(), r"holds an array of shape \(2, 3\): expected one square matrix of floats"),
        (tensor((4,), (1,)), r"holds an array of shape \(4,\): expected one square matrix"),
        ({"w": tensor((2, 2), (2, 1))}, "holds no array: expected one square matrix of floats"),
        (dump_pickle(Call(GlobalName("numpy dtype"), ("f4",))), "holds no array"),
        (numpy_array(dtype="i8"), "cannot be read: its array is not of floats"),
        (numpy_array(dtype="O8"), "cannot be read: its array is not of floats"),
        (numpy_array(order=">"), "cannot be read: its numbers are of a big-endian machine"),
        (numpy_array(size=3), "The array in .*m cannot be read: cannot reshape"),
        (numpy_array(size=1 << 40), "The array in .*m cannot be read"),
        (numpy_array(data=np.full(4, np.nan, "f4").tobytes()), "holds NaN, infinity or numbers"),
        (numpy_array(dtype="f8", data=np.full(4, 1e300).tobytes()), "holds NaN, infinity or"),
        (numpy_array(module="numpy.evil"), "Python object 'numpy.evil._reconstruct'.*Nothing"),
    ],
)
def test_what_is_no_square_matrix_of_floats_is_refused(tmp_path, state, message):
    has_storage = b"storage" in (state if isinstance(state, bytes) else dump_pickle(state))
    refused(legacy(tmp_path / "m", state, keys="0" * has_storage), message, read_matrix)


def test_numpy_is_known_to_matrices_only(tmp_path):
    path = legacy(tmp_path / "m", numpy_array(), keys=())
    refused(path, "the Python object 'numpy.core.multiarray._reconstruct'")


def test_a_text_that_is_encoded_again_and_again_does_not_fill_the_memory(tmp_path):
    text = pickle.BINUNICODE + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    encode = b"c_codecs\nencode\nq\x01"
    again = b"h\x01h\x00X\x06\x00\x00\x00latin1\x86R"
    path = legacy(tmp_path / "m", b"\x80\x02](" + text + encode + again * 1000 + b"e.", keys=())
    refused(path, "an array of an unknown form", read_matrix)


def test_a_text_that_many_arrays_share_does_not_fill_the_memory(tmp_path):
    text = pickle.BINUNICODE + struct.pack("<I", 1 << 20) + b"a" * (1 << 20) + b"q\x00"
    data = VALUES[:4].tobytes()
    own = pickle.SHORT_BINSTRING + bytes([len(data)]) + data
    array = numpy_array()[2:-1].replace(own, b"h\x00")
    path = legacy(tmp_path / "m", b"\x80\x02](" + text + 300 * array + b"e.", keys=())
    tracemalloc.start()
    try:
        refused(path, "holds no array", read_matrix)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


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
        (Evil(eval, f"open({str(mark)!r}, 'w')"), r"__builtin__\.eval"),
        (Evil(exec, f"open({str(mark)!r}, 'w')"), r"__builtin__\.exec"),
        (Evil(open, str(mark), "w"), r"(io|_io)\.open"),
        (Evil(np.save, str(mark), 1), r"numpy\.save"),
        (Evil(os.mkdir, str(mark)), rf"{os.mkdir.__module__}\.mkdir"),
        (Evil(subprocess.call, ["touch", str(mark)]), r"(subprocess|commands)\.call"),
    ]


@pytest.mark.parametrize("which", range(7))
@pytest.mark.parametrize("write", [legacy, zipped])
@pytest.mark.parametrize("read", [open_state_dict, read_matrix])
def test_nothing_in_a_file_is_run(tmp_path, which, write, read):
    mark, evils = marks(tmp_path)
    evil, name = evils[which]
    for state in (evil, {"w": evil}, OrderedDict(w=[evil]), (1, evil)):
        path = write(tmp_path / "m", pickle.dumps(state, protocol=2))
        message = rf"the Python object '{name}'. Nothing of it was run. Do not trust the file"
        refused(path, message, read)
        assert not mark.exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("which", range(7))
def test_these_files_would_run_it_elsewhere(tmp_path, which):
    mark, evils = marks(tmp_path)
    pickle.loads(pickle.dumps(evils[which][0], protocol=2))
    assert mark.exists() or mark.with_suffix(".npy").exists()


@pytest.mark.parametrize("place", range(5))
def test_nothing_is_run_in_any_of_the_five_pickles(tmp_path, place):
    evil = pickle.dumps(marks(tmp_path)[1][0][0], protocol=2)
    parts = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}, []]
    pickles = [dump_pickle(part) for part in parts]
    pickles[place] = evil
    (tmp_path / "m").write_bytes(b"".join(pickles))
    refused(tmp_path / "m", r"Python object '.*\.system'. Nothing of it was run")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("protocol", [0, 1, 3, 4, 5])
def test_other_pickle_protocols_are_not_read(tmp_path, protocol):
    evil = marks(tmp_path)[1][0][0]
    refused(legacy(tmp_path / "m", pickle.dumps(evil, protocol)), "damaged or of another kind")
    # the same instructions where the protocol is said to be 2
    state = b"\x80\x02" + pickle.dumps(evil, protocol).removeprefix(b"\x80" + bytes([protocol]))
    refused(legacy(tmp_path / "m", state), "Nothing of it was run|damaged or of another kind")
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    "state",
    [
        b"(S'touch mark'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nX\x01\x00\x00\x00ao.",  # OBJ
        b"cos\nsystem\n)\x81.",  # NEWOBJ
        b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93)R.",  # STACK_GLOBAL
        b"\x82\x01)R.",  # EXT1
        b"Pname\n.",  # PERSID
        b"I" + b"9" * 100_000 + b"\n.",  # a number whose reading takes quadratic time
        b"\x8b\xff\xff\xff\x7f.",  # LONG4
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",  # BINUNICODE8
        b"\x8f.",  # EMPTY_SET
    ],
)
def test_instructions_that_torch_save_never_writes_are_refused(tmp_path, state):
    message = "the (pickle instruction|Python object) .*Nothing of it was run. Do not trust"
    refused(legacy(tmp_path / "m", b"\x80\x02" + state), message)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (b"ctorch\nFloatStorage\n)R.", "a call of what is no function"),
        (b"X\x02\x00\x00\x00hi)R.", "a call of what is no function"),
        (b"ccollections\nOrderedDict\n}R.", "a call of what is no function"),
        # attributes of the functions themselves
        (b"ctorch._utils\n_rebuild_tensor_v2\n}X\x01\x00\x00\x00a}sb.", "attributes for what has"),
        (b"ccollections\nOrderedDict\nN}\x86b.", "attributes for what has none"),
        (b"]N}\x86b.", "attributes for what has none"),
        (b"X\x01\x00\x00\x00aQ.", "an object outside of the pickle"),
    ],
)
def test_other_ways_to_reach_python_are_refused(tmp_path, state, message):
    refused(legacy(tmp_path / "m", b"\x80\x02" + state), message)


def test_attributes_of_a_state_dict_are_ignored(tmp_path):
    # torch.save gives it _metadata; another name would hide a method
    state = dump_pickle(Call(ORDERED_DICT, (), {"w": tensor()}))[:-1]
    state += dump_pickle({"items": 1, "_metadata": {"": {"version": 1}}})[2:-1] + b"b."
    assert list(arrays_of(legacy(tmp_path / "m", state))) == ["w"]


# Files that would take forever, or all memory.


def bomb(depth=200):
    """A tuple that holds one tuple twice, which holds one twice, ...: hashing it takes 2^200."""
    return b")" + b"".join(b"q%c" % i + b"h%c" % i + b"\x86" for i in range(depth))


@pytest.mark.parametrize(
    "state",
    [
        b"\x80\x02}" + bomb() + b"Ns.",  # the key of an entry
        b"\x80\x02}(" + bomb() + b"Nu.",
        b"\x80\x02" + bomb() + b"Q.",  # a storage
        b"\x80\x02(X\x07\x00\x00\x00storage" + bomb() + b"X\x01\x00\x00\x000NK\x01NtQ.",
        b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\n" + bomb() + b"NK\x01NtQ.",
        b"\x80\x02(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000N"
        + bomb()
        + b"NtQ.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n(" + bomb() + b"K\x00))tR.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n(NK\x00" + bomb() + b")tR.",
        b"\x80\x02" + bomb() + b")R.",  # a function
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n" + bomb() + b"R.",
        b"\x80\x02" + bomb() + b"Nb.",
        b"\x80\x02}X\x01\x00\x00\x00a" + bomb() + b"s.",
        b"\x80\x02" + bomb() + b".",
        b"\x80\x02cnumpy\ndtype\n" + bomb() + b"\x85R.",
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00a" + bomb() + b"\x86R.",
        b"\x80\x02" + b"\x85" * 1_000_000 + b".",
        b"\x80\x02)" + b"\x85" * 900_000 + b".",  # deep, for whatever recurs
        b"\x80\x02}" + b"q\x00X\x01\x00\x00\x00ah\x00s" * 1000 + b".",  # holds itself
        b"\x80\x02" + b"}" * 2_000_000 + b".",
    ],
)
@pytest.mark.parametrize("read", [open_state_dict, read_matrix])
def test_bombs_do_not_go_off(tmp_path, state, read):
    start = time.process_time()
    message = "Nothing of it was run|damaged or of another kind|expected|not of floats"
    refused(legacy(tmp_path / "m", state, keys=()), message, read)
    # the same among the storages' keys
    damaged = legacy(tmp_path / "m", {}, keys=()).read_bytes()
    (tmp_path / "m").write_bytes(damaged.removesuffix(dump_pickle([])) + state)
    refused(tmp_path / "m", "Nothing of it was run|damaged or of another kind", read)
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (tensor((1 << 40,), (0,)), "larger than its storage"),
        (tensor((7,), (0,)), "larger than its storage"),
        (tensor((1 << 40, 0), (1, 1), count=1 << 50), "a storage of an unknown form"),
        (tensor((2,) * 9, (0,) * 9), "a tensor of 9 dimensions"),
        (tensor((2,) * 70, (0,) * 70), "a tensor of 70 dimensions"),
        (tensor((2, 3), (1,)), "a tensor of 2 dimensions and 1 strides"),
        (tensor((2, 3), (4, 1)), "larger than its storage"),
        (tensor((2, 3), (3, 2)), "larger than its storage"),
        (tensor((2, 3), offset=1), "larger than its storage"),
        (tensor((0, 3), offset=7), "larger than its storage"),
        (tensor((2, 3), (-3, 1)), "sizes that are no numbers, or negative"),
        (tensor((-2, 3)), "sizes that are no numbers, or negative"),
        (tensor(offset=-1), "sizes that are no numbers, or negative"),
        (tensor((True, 3)), "sizes that are no numbers, or negative"),
        (tensor(("2", 3)), "sizes that are no numbers, or negative"),
        (tensor((1 << 70,), (1,)), "sizes that are no numbers, or negative"),
        (tensor([2, 3]), "a tensor of an unknown form"),
        (tensor((6,), None), "a tensor of an unknown form"),
        (tensor(count=-1), "a storage of an unknown form"),
        (tensor(count=True), "a storage of an unknown form"),
        (tensor(key=0), "a storage of an unknown form"),
        (tensor(kind="torch FloatStorage"), "a storage of an unknown form"),
        (tensor(kind=ORDERED_DICT), "truncated, damaged or of another kind"),
        (tensor(tag="module"), "a storage of an unknown form"),
        (tensor(view=("1", 0, 3)), "a storage of an unknown form"),
        (tensor(kind=GlobalName("torch LongStorage")), "Python object 'torch.LongStorage'"),
        (Call(REBUILD, (None, 0, (2, 3), (3, 1), False, None)), "a tensor of an unknown form"),
        (Call(REBUILD, (storage(),)), "truncated, damaged or of another kind"),
        (Call(ORDERED_DICT, ([],)), "truncated, damaged or of another kind"),
    ],
)
@pytest.mark.parametrize("write", [legacy, zipped])
def test_sizes_that_cannot_be_are_refused(tmp_path, wrong, message, write):
    refused(write(tmp_path / "m", {"w": wrong}), message)


@pytest.mark.parametrize("state", [{"w": 1}, {"w": tensor(), "epoch": None}, [], (), "w", tensor()])
def test_what_is_no_state_dict_is_refused(tmp_path, state):
    keys = "0" * (b"storage" in dump_pickle(state))
    refused(legacy(tmp_path / "m", state, keys), "holds no state dict: expected names with a tens")


def test_storages_unlike_those_in_the_pickle_are_refused(tmp_path):
    path = tmp_path / "m"
    refused(legacy(path, {"w": tensor()}, keys=()), "storages are missing")
    refused(legacy(path, {"w": tensor()}, keys=("0", "1")), "a storage that no tensor is in")
    refused(legacy(path, {"w": tensor()}, keys=(("0",),)), "a storage that no tensor is in")
    refused(legacy(path, {"w": tensor()}, count=5), "storage 0 has 5 elements, not 6")
    refused(legacy(path, {"w": tensor()}, count=-6), "storage 0 has -6 elements, not 6")
    two = {"w": tensor(), "v": tensor((1,), (1,), count=1)}
    refused(legacy(path, two), "storage 0 is of two kinds")
    refused(zipped(path, {"w": tensor()}, {"m/data/1": b""}), "truncated, damaged or of another")
    refused(zipped(path, {"w": tensor()}, {"m/data/0": bytes(23)}), "storage 0 has 5.75 elements")
    refused(zipped(path, {"w": tensor()}, {"n/data.pkl": b""}), "a zip with 2 files data.pkl")


def test_machines_with_another_byte_order_are_refused(tmp_path):
    path = tmp_path / "m"
    message = "cannot be read: its numbers are of a big-endian machine. Save it on another one"
    refused(legacy(path, {"w": tensor()}, little_endian=False), message)
    members = {"m/data/0": VALUES.tobytes(), "m/byteorder": "big"}
    refused(zipped(path, {"w": tensor()}, members), message)
    members["m/byteorder"] = "little"
    assert list(arrays_of(zipped(path, {"w": tensor()}, members))) == ["w"]


def test_compressed_zips_are_refused(tmp_path):
    big = dump_pickle({"w": tensor(count=10_000_000)})
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = zipped(tmp_path / "m", big, {"m/data/0": bytes(40_000_000)}, compression)
        refused(path, "m/data.pkl in it is compressed, which torch.save never does")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("write", [legacy, zipped])
def test_numbers_that_no_weight_has_are_refused(tmp_path, monkeypatch, value, write):
    wrong = VALUES.copy()
    wrong[4] = value
    monkeypatch.setitem(globals(), "VALUES", wrong)
    path = write(tmp_path / "m", {"v": tensor((2,), (1,)), "w": tensor()})
    with open_state_dict(path) as tensors:
        np.testing.assert_array_equal(tensors["v"].read(), [0, 1])
    refused(path, "The array w in .* holds NaN, infinity or numbers beyond float32: no working")


# Damage.


@pytest.mark.parametrize("variant", ["word_char", "tanh_clips"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, variant):
    whole = (MANY_LANGUAGES / variant / "token_embedder.pkl").read_bytes()
    path = tmp_path / "m"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path, rf"\({length:,} bytes\) is not a complete file of torch.save: it is truncat")
        refused(path, "Download or copy it again", read_matrix)


@pytest.mark.parametrize("variant", ["word_char", "tanh_clips"])
def test_flipped_bytes_give_a_clear_error_or_other_numbers(tmp_path, variant):
    whole = (MANY_LANGUAGES / variant / "token_embedder.pkl").read_bytes()
    path = tmp_path / "m"
    random = np.random.default_rng(0)
    errors = 0
    for position in random.integers(0, len(whole), 1500):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << random.integers(8)
        path.write_bytes(damaged)
        try:
            arrays_of(path)
        except ValueError as error:
            errors += 1
            assert str(path) in str(error)
    assert errors > 100


def test_a_changed_number_in_a_zip_is_found(tmp_path):
    whole = zipped(tmp_path / "m", {"w": tensor()}).read_bytes()
    assert arrays_of(tmp_path / "m")["w"][1, 2] == 5
    (tmp_path / "m").write_bytes(whole.replace(VALUES.tobytes(), VALUES[::-1].tobytes()))
    refused(tmp_path / "m", "The array w in .*m cannot be read: the file is damaged. Download or")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path):
    path = legacy(tmp_path / "m", {"w": tensor()})
    with open_state_dict(path) as tensors:
        os.truncate(path, path.stat().st_size - 4)
        with pytest.raises(ValueError, match="The array w in .*m cannot be read"):
            tensors["w"].read()


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"<html>404</html>", b"cos\nsystem\n(S'ls'\ntR.", b"PK\x03\x04", bytes(9999)],
)
@pytest.mark.parametrize("read", [open_state_dict, read_matrix])
def test_other_files_are_refused(tmp_path, content, read):
    (tmp_path / "m").write_bytes(content)
    message = rf"m \({len(content):,} bytes\) is not a complete file of torch.save.* copy it again"
    refused(tmp_path / "m", message, read)


def test_a_zip_of_other_files_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "m", "w") as file:
        file.writestr("config.json", "{}")
    refused(tmp_path / "m", "a zip with 0 files data.pkl, expected one")


@pytest.mark.parametrize("read", [arrays_of, read_matrix])
def test_what_is_no_file_is_refused(tmp_path, read):
    with pytest.raises(FileNotFoundError, match="There is no file .*missing"):
        read(tmp_path / "missing")
    refused(tmp_path, "is a folder or a device: expected a file of torch.save", read)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "is a folder or a device: expected a file of torch.save", read)
