"""Pickles of plain values: numbers, strings, tuples, lists and dicts.

A pickle is a program that may call anything, so nothing is unpickled here. The few instructions
that such values need are interpreted one by one; any other is refused before its argument is read.
"""

import pickle
import struct
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

_MAX_INSTRUCTIONS = 1_000_000


class UnsafePickleError(ValueError):
    """A pickle that would run something, or that is not of plain values."""


class Built:
    """Base of the values that a pickle may complete, after it has made them, by `build(state)`."""

    def build(self, state: Any) -> None:
        raise NotImplementedError


class GlobalName(str):
    """A Python object that a pickle names, such as `"collections OrderedDict"`: its name only."""


def load_pickle(
    file: BinaryIO,
    calls: Mapping[str, Callable | None],
    storage: Callable[[tuple], Any] | None = None,
) -> Any:
    """Reads the pickle, of protocol 2, that begins at the file's position.

    Args:
        file: A file in memory, which limits how much a damaged length can ask for.
        calls: What to call, with arguments of any type and number, in place of each Python object
            that the pickle may name; `None` for one that it may name but not call.
        storage: Returns the object outside the pickle that has a key.

    Raises UnsafePickleError if the pickle names another object or has another instruction, and an
    exception of any other type if it is damaged.
    """
    if file.read(1) != pickle.PROTO or file.read(1) != b"\x02":
        raise ValueError("there is no pickle where one is expected")
    machine = _Machine(file, calls, storage)
    for _ in range(_MAX_INSTRUCTIONS):
        code = file.read(1)
        if code == pickle.STOP:
            return machine.stack.pop()
        if not code:
            raise ValueError("the pickle has no end")
        if code not in _INSTRUCTIONS:
            raise UnsafePickleError(f"the pickle instruction {code!r}")
        _INSTRUCTIONS[code](machine)
    raise ValueError(f"the pickle has more than {_MAX_INSTRUCTIONS:,} instructions")


class _Machine:
    """The stack, marks and memo that a pickle's instructions work on.

    Nothing made here is hashed, compared or printed but strings: tuples that hold the same tuple
    twice, some levels deep, would take forever.
    """

    def __init__(self, file, calls, storage):
        self.file = file
        self.calls = calls
        self.storage = storage
        self.stack = []
        self.marks = []
        self.memo = {}

    def number(self, format):
        return struct.unpack(format, self.file.read(struct.calcsize(format)))[0]

    def data(self, length_format):
        length = self.number(length_format)
        data = self.file.read(length)
        if len(data) != length:
            raise ValueError("the pickle is cut short")
        return data

    def push(self, value):
        self.stack.append(value)

    def pop_to_mark(self):
        return self.pop_last(len(self.stack) - self.marks.pop())

    def pop_last(self, count):
        start = len(self.stack) - count
        if min(start, count) < 0:
            raise ValueError("the pickle takes more values than it has made")
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def remember(self, format):
        self.memo[self.number(format)] = self.stack[-1]

    def extend(self, items):
        if type(self.stack[-1]) is not list:
            raise ValueError("items for what is no list")
        self.stack[-1].extend(items)

    def update(self, items):
        names = items[::2]
        if type(self.stack[-1]) is not dict or any(type(name) is not str for name in names):
            raise ValueError("entries for what is no dict with names")
        self.stack[-1].update(zip(names, items[1::2], strict=True))

    def name_global(self):
        module, name = (self.file.readline().decode("ascii").rstrip("\n") for _ in range(2))
        if f"{module} {name}" not in self.calls:
            raise UnsafePickleError(f"the Python object {f'{module}.{name}'[:100]!r}")
        self.push(GlobalName(f"{module} {name}"))

    def call(self):
        function, arguments = self.pop_last(2)
        call = self.calls[function] if type(function) is GlobalName else None
        if call is None or type(arguments) is not tuple:
            raise UnsafePickleError("a call of what is no function")
        self.push(call(*arguments))

    def build(self):
        state = self.stack.pop()
        if isinstance(self.stack[-1], Built):
            self.stack[-1].build(state)
        elif type(self.stack[-1]) is not dict:  # a state dict's attribute _metadata says nothing
            raise UnsafePickleError("attributes for what has none")

    def find_storage(self):
        key = self.stack.pop()
        if self.storage is None or type(key) is not tuple:
            raise UnsafePickleError("an object outside of the pickle")
        self.push(self.storage(key))


_INSTRUCTIONS: dict[bytes, Callable[[_Machine], Any]] = {
    pickle.NONE: lambda machine: machine.push(None),
    pickle.NEWTRUE: lambda machine: machine.push(True),
    pickle.NEWFALSE: lambda machine: machine.push(False),
    pickle.BININT: lambda machine: machine.push(machine.number("<i")),
    pickle.BININT1: lambda machine: machine.push(machine.number("<B")),
    pickle.BININT2: lambda machine: machine.push(machine.number("<H")),
    pickle.LONG1: lambda machine: machine.push(
        int.from_bytes(machine.data("<B"), "little", signed=True)
    ),
    pickle.BINUNICODE: lambda machine: machine.push(machine.data("<I").decode()),
    # strings of Python 2
    pickle.BINSTRING: lambda machine: machine.push(machine.data("<I").decode("latin1")),
    pickle.SHORT_BINSTRING: lambda machine: machine.push(machine.data("<B").decode("latin1")),
    pickle.MARK: lambda machine: machine.marks.append(len(machine.stack)),
    pickle.EMPTY_TUPLE: lambda machine: machine.push(()),
    pickle.TUPLE1: lambda machine: machine.push(tuple(machine.pop_last(1))),
    pickle.TUPLE2: lambda machine: machine.push(tuple(machine.pop_last(2))),
    pickle.TUPLE3: lambda machine: machine.push(tuple(machine.pop_last(3))),
    pickle.TUPLE: lambda machine: machine.push(tuple(machine.pop_to_mark())),
    pickle.EMPTY_LIST: lambda machine: machine.push([]),
    pickle.APPEND: lambda machine: machine.extend(machine.pop_last(1)),
    pickle.APPENDS: lambda machine: machine.extend(machine.pop_to_mark()),
    pickle.EMPTY_DICT: lambda machine: machine.push({}),
    pickle.SETITEM: lambda machine: machine.update(machine.pop_last(2)),
    pickle.SETITEMS: lambda machine: machine.update(machine.pop_to_mark()),
    pickle.BINPUT: lambda machine: machine.remember("<B"),
    pickle.LONG_BINPUT: lambda machine: machine.remember("<I"),
    pickle.BINGET: lambda machine: machine.push(machine.memo[machine.number("<B")]),
    pickle.LONG_BINGET: lambda machine: machine.push(machine.memo[machine.number("<I")]),
    pickle.GLOBAL: _Machine.name_global,
    pickle.REDUCE: _Machine.call,
    pickle.BUILD: _Machine.build,
    pickle.BINPERSID: _Machine.find_storage,
}


class Call(NamedTuple):
    """What `dump_pickle` writes as a call of a Python object, whose result then gets entries."""

    name: GlobalName
    arguments: tuple = ()
    entries: Mapping[str, Any] = {}


class External(NamedTuple):
    """What `dump_pickle` writes as an object outside the pickle that has a key."""

    key: tuple


def dump_pickle(value: Any) -> bytes:
    """The pickle, of protocol 2, of plain values, `GlobalName`, `Call` and `External`."""
    return pickle.PROTO + b"\x02" + _dumped(value) + pickle.STOP


def _dumped(value):
    match value:
        case None:
            return pickle.NONE
        case bool():
            return pickle.NEWTRUE if value else pickle.NEWFALSE
        case int() if -(1 << 31) <= value < 1 << 31:
            return pickle.BININT + struct.pack("<i", value)
        case int():
            length = value.bit_length() // 8 + 1
            return pickle.LONG1 + bytes([length]) + value.to_bytes(length, "little", signed=True)
        case GlobalName():
            return pickle.GLOBAL + value.replace(" ", "\n").encode() + b"\n"
        case str():
            return pickle.BINUNICODE + struct.pack("<I", len(value.encode())) + value.encode()
        case Call():
            call = _dumped(value.name) + _dumped(value.arguments) + pickle.REDUCE
            return call + _dumped_entries(value.entries)
        case External():
            return _dumped(value.key) + pickle.BINPERSID
        case tuple():
            return pickle.MARK + b"".join(map(_dumped, value)) + pickle.TUPLE
        case list():
            return pickle.EMPTY_LIST + pickle.MARK + b"".join(map(_dumped, value)) + pickle.APPENDS
        case dict():
            return pickle.EMPTY_DICT + _dumped_entries(value)
        case _:
            raise TypeError(f"{type(value).__name__} is no plain value.")


def _dumped_entries(entries):
    pairs = (_dumped(name) + _dumped(value) for name, value in entries.items())
    return pickle.MARK + b"".join(pairs) + pickle.SETITEMS if entries else b""
