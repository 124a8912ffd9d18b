"""Files of word vectors, one row for each line of a text, written in parts that survive a kill."""

import contextlib
import dataclasses
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from keras_elmo.embedding.formats import FORMATS, Row
from keras_elmo.files import (
    PARTIAL,
    atomic_write,
    backup_name,
    check_output,
    check_replaceable,
    is_damage,
    remove,
    replace,
)
from keras_elmo.locks import locked
from keras_elmo.text.reader import Record, pluralize

_PART_BYTES = 64 * 2**20
_PART_SECONDS = 60
_LINE_BYTES = 1024  # what a line takes besides its numbers, here and in HDF5

_LOG = logging.getLogger("keras_elmo")


def check_vectors_output(
    path: str | os.PathLike,
    inputs: Iterable[Any] = (),
    *,
    compression: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> None:
    """Raises an error unless a file of vectors may be written or resumed. Nothing is changed.

    Args:
        path: The output.
        inputs: See `check_output`.
        compression, resume, overwrite: As for `Embedder.embed_file`, as are the errors.
    """
    path = os.fspath(path)
    if compression not in (None, "gzip"):
        raise ValueError(f"compression must be None or 'gzip', got {compression!r}.")
    if _suffix(path) not in FORMATS:
        *others, last = FORMATS
        raise ValueError(f"The name must end in {', '.join(others)} or {last}; got {path!r}.")
    FORMATS[_suffix(path)].check_installed()
    if resume and overwrite:
        raise ValueError("resume and overwrite cannot be combined: choose one.")
    if _part_paths(_parts_folder(path), path) and not (resume or overwrite):
        raise FileExistsError(
            f"{path} was started. Continue it with resume=True, start again with overwrite=True, "
            "or choose a different name."
        )
    _check_files(path, inputs, resume or overwrite)
    if _suffix(target := os.path.realpath(path)) != _suffix(path):
        raise ValueError(f"{path} is a link to {target}: give both the same ending.")


def _check_files(path, inputs, overwrite):
    """Checks the output and the folder of its parts."""
    own = _own_names(path)
    check_output(path, inputs, overwrite, own if FORMATS[_suffix(path)].is_folder else None)
    check_replaceable(_parts_folder(path), True, own)


@contextlib.contextmanager
def open_writer(
    path: str | os.PathLike,
    settings: dict,
    inputs: Iterable[Any] = (),
    *,
    compression: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> "Iterator[VectorWriter]":
    """Opens a file of vectors, which appears, or is replaced, when it is complete.

    Until then its parts are in a folder next to it (`.vectors.h5.parts` for `vectors.h5`). An error
    in the block keeps the lines before it for a run that resumes; a kill keeps the complete parts.
    Other processes are locked out.

    Args:
        path: Its suffix selects the format. `.h5` and `.hdf5` have bilm-tf's layout: a dataset for
            each line, named "0", "1", ..., or after the record if it has a name; `.npz` has such
            arrays; `.parquet` is a folder of files with the columns `line`, `tokens`,
            `sentence_lengths`, `vectors`, `error`, if records have names `id`, and their fields.
        settings: JSON values that the vectors depend on, stored in the file.
        inputs, compression, resume, overwrite: As for `check_vectors_output`, as are the errors.
    """
    check_vectors_output(path, inputs, compression=compression, resume=resume, overwrite=overwrite)
    path = os.fspath(path)
    with locked(f"{_parts_folder(path)}.lock", f"Another process is writing {path}"):
        writer = VectorWriter(path, {**settings, "compression": compression}, resume, overwrite)
        try:
            yield writer
        except BaseException:
            writer.keep_lines()
            raise
        finally:
            with contextlib.suppress(OSError):
                os.rmdir(_parts_folder(path))  # if it is empty


def stored_lines(path: str | os.PathLike) -> int:
    """The number of lines of an output, complete or not, that `resume` would not embed again."""
    _, state, _ = _read_stored(os.path.realpath(path))
    return state.lines


@dataclasses.dataclass(frozen=True)
class _State:
    """What is stored with a part about the output up to its end."""

    settings: dict
    lines: int = 0
    digest: str | None = None  # of the text of these lines
    overwrite: bool = False  # whether the output may replace an existing one


class VectorWriter:
    """Writes blocks of lines to parts, and makes one output of them in the end.

    A part ends with the first block after 64 MB or a minute, so that a run that resumes embeds the
    same blocks. It gets its name when it is complete. Parts of an earlier run that this one does
    not continue are removed when its first part is written.

    Attributes:
        name: The output, as the user named it, for messages.
        path: Its path, without links.
        is_finished: Whether an earlier run has completed the output, which is then left unchanged.
        unit: What messages call a line, which may be set.
    """

    def __init__(self, name: str, settings: dict, resume: bool, overwrite: bool):
        self.name, self.path, self.unit = name, os.path.realpath(name), "line"
        self.is_finished = False
        settings = json.loads(json.dumps(settings))  # as they are stored
        self._format = FORMATS[_suffix(self.path)]
        self._folder = _parts_folder(self.path)
        self._state = _State(settings, overwrite=overwrite)  # after the last part
        self._parts: list[str] = []
        self._rows: list[Row] = []  # of the next part
        self._num_bytes, self._part_start = 0, time.monotonic()
        if resume:
            self._resume()

    def _resume(self):
        parts, stored, is_finished = _read_stored(self.path)
        if not parts:
            return
        settings, old = self._state.settings, stored.settings
        names = sorted(name for name in {*old, *settings} if old.get(name) != settings.get(name))
        if names:
            changed = [
                "a different model" if name == "model" else f"{name}={old.get(name)!r}"
                for name in names
            ]
            raise ValueError(
                f"{self.name} was made with {' and '.join(changed)}: resume with the same, replace "
                "it with overwrite=True, or choose a different name."
            )
        if not is_finished and os.path.isfile(self.path):
            with contextlib.suppress(ValueError):  # joined by a run that was killed thereafter
                is_finished = _read_state(self.path, 0) == _without_overwrite(stored)
        if not is_finished:  # something may have appeared after the kill
            _check_files(self.path, (), stored.overwrite)
        self._parts, self._state, self.is_finished = parts, stored, is_finished

    @property
    def num_lines(self) -> int:
        """Lines written, including earlier runs."""
        return self._state.lines + len(self._rows)

    @property
    def digest(self) -> str | None:
        """SHA-256 of the text of the lines in the parts; `None` if there are none."""
        return self._state.digest

    def write(self, block: Iterable[tuple[Record, np.ndarray]]) -> None:
        """Adds a block of lines, each with its array `(D,)`, `(T, D)` or `(L, T, D)`."""
        for record, array in block:
            if array.dtype == np.float16 and not np.isfinite(array).all():
                raise ValueError(
                    f"The vectors of {self.unit} {self.num_lines + 1:,} have a number beyond the "
                    "range of float16, 65,504. Write the file again with dtype='float32'."
                )
            self._rows.append(Row(self.num_lines, record, array))
            fields = sum(len(text or "") for text in record.fields.values())
            self._num_bytes += array.nbytes + fields + _LINE_BYTES
        seconds = time.monotonic() - self._part_start
        if self._num_bytes >= _PART_BYTES or seconds >= _PART_SECONDS:
            self._end_part()

    def finish(self) -> None:
        """Makes the output from the parts, unless an earlier run did, and removes them."""
        if not self.is_finished:
            self._end_part()
            os.makedirs(self._folder, exist_ok=True)
            path = os.path.join(self._folder, f"joined{_suffix(self.path)}")
            content = _to_json(_without_overwrite(self._state))
            joined = self._format.join(self._parts, path, content)
            _check_files(self.path, (), self._state.overwrite)  # something may have appeared
            replace(joined, self.path)
        self._remove_all_but([])
        remove(backup_name(self.path))  # which a kill may have left

    def discard(self) -> None:
        """Removes the lines that were written."""
        if self._parts:
            self._remove_all_but([])
        self._rows, self._parts = [], []

    def keep_lines(self) -> None:
        """Keeps the lines that were written, after an error, for a run that resumes."""
        if self.is_finished:
            return
        with contextlib.suppress(Exception):  # what went wrong first is raised
            self._end_part()
        if self._parts:
            message = "The vectors of the first %s are kept: resuming continues after them."
            _LOG.warning(message, pluralize(self._state.lines, self.unit))

    def _end_part(self):
        """Writes the rows that are in memory to a part."""
        rows, self._rows, self._num_bytes = self._rows, [], 0
        self._part_start = time.monotonic()
        if not rows:
            return
        os.makedirs(self._folder, exist_ok=True)
        self._remove_all_but(self._parts)
        number, record, _ = rows[-1]
        state = dataclasses.replace(self._state, lines=number + 1, digest=record.digest)
        path = _part_path(self._folder, len(self._parts), self.path)
        with atomic_write(path) as partial:
            compression = state.settings["compression"]
            self._format.write_part(partial, rows, _to_json(state), compression)
        self._parts.append(path)
        self._state = state

    def _remove_all_but(self, parts):
        """Removes other parts, the first one first: after a kill the rest counts for nothing."""
        names = os.listdir(self._folder) if os.path.isdir(self._folder) else []
        for name in sorted(filter(_own_names(self.path).fullmatch, names)):
            if (path := os.path.join(self._folder, name)) not in parts:
                os.unlink(path)


def _to_json(state):
    return json.dumps(dataclasses.asdict(state))


def _without_overwrite(state):
    """The state of the complete output, which does not depend on what it replaced."""
    return dataclasses.replace(state, overwrite=False)


def _read_stored(path):
    """The undamaged files of an output, the state after them, and whether it is complete."""
    files = _part_paths(_parts_folder(path), path)
    is_complete = not files
    if is_complete:
        files = [path] if os.path.isfile(path) else _part_paths(path, path)
    state = _State({})
    for i, file in enumerate(files):
        try:
            state = _read_state(file, state.lines)
        except ValueError as error:
            if is_complete:
                raise ValueError(
                    f"{error} It cannot be resumed: replace it with overwrite=True, or choose a "
                    "different name."
                ) from error
            message = "%s What follows the first %s is embedded again."
            _LOG.warning(message, error, f"{state.lines:,}")
            return files[:i], state, False
    return files, state, is_complete and bool(files)


def _read_state(path, num_before):
    """The state after a file of an output that has `num_before` lines before it."""
    if not os.path.exists(path):
        raise ValueError(f"{path} is missing.")
    try:
        content, num_rows = FORMATS[_suffix(path)].read_state(path)
        state = _State(**json.loads(content))
        if state.lines == num_before + num_rows:
            return state
        reason = f"{num_rows:,} rows in place of {state.lines - num_before:,}"
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        if not is_damage(error):
            raise
        reason = error
    raise ValueError(
        f"{path} is damaged, or was not written by this version of keras_elmo ({reason})."
    )


def _suffix(path):
    return os.path.splitext(path)[1]


def _parts_folder(path):
    """The folder beside a file for its parts."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.parts")


def _own_names(path):
    """Matches the names of files in the folder of an output's parts."""
    partial, suffix = re.escape(PARTIAL), re.escape(_suffix(path))
    return re.compile(rf"(part-\d{{5,}}|joined|{partial}\w+){suffix}")


def _part_path(folder, number, output):
    return os.path.join(folder, f"part-{number:05}{_suffix(output)}")


def _part_paths(folder, output):
    """The parts in a folder, in order; none without the first, which is removed first."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    num_parts = sum(name.startswith("part-") for name in names)
    paths = [_part_path(folder, number, output) for number in range(num_parts)]
    return paths if paths and os.path.lexists(paths[0]) else []
