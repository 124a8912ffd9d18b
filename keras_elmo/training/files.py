"""The files of a corpus: counting their words, and telling whether they have changed."""

import functools
import hashlib
import itertools
import logging
import os
from collections.abc import Sequence
from typing import Any

from keras_elmo.progress import progress_bar
from keras_elmo.text.reader import Files, counted, find_files
from keras_elmo.text.vocabulary import WordCounts, count_words

_log = logging.getLogger(__name__)


def count_corpus(files: Files, show_progress: bool | None = None) -> WordCounts:
    """Counts the words of files with a progress bar, and logs what was read.

    Raises ValueError if there is no sentence.
    """
    paths = find_files(files)
    with progress_bar(
        "counting", total=sum(map(os.path.getsize, paths)), shown=show_progress
    ) as bar:
        words = count_words(paths, lambda path: bar.advance(os.path.getsize(path)))
    report = words.report
    if not report.sentences:
        raise_no_sentence(paths)
    sizes = ((report.files, "file"), (report.sentences, "sentence"), (report.tokens, "token"))
    _log.info("Corpus: %s", ", ".join(counted(*size) for size in sizes))
    for oddity in report.oddities():
        _log.info("        %s", oddity)
    return words


def raise_no_sentence(paths: Sequence[str]) -> None:
    """Raises the error for files without a sentence."""
    others = f" and {counted(len(paths) - 1, 'other file')}" if len(paths) > 1 else ""
    raise ValueError(f"There is no sentence in {paths[0]}{others}.")


def fingerprints(files: Files, earlier: Sequence[Any] = ()) -> list[list[Any]]:
    """The name, size, time of the last change and content hash of each file.

    A hash of the `earlier` fingerprints, in the same order, stands as long as name, size and time
    do: otherwise the whole file is read.
    """
    found = []
    for path, before in zip(find_files(files), itertools.chain(earlier, itertools.repeat(()))):
        status = os.stat(path)
        entry = [os.path.basename(path), status.st_size, status.st_mtime_ns]
        is_known = len(before) > 3 and list(before[:3]) == entry
        found.append([*entry, before[3] if is_known else _content_hash(path, *entry)])
    return found


def changed_files(found: Sequence[Any], earlier: Sequence[Any]) -> list[str]:
    """The names of files that differ between two lists of fingerprints.

    Those of earlier versions have no hash: there the size must do.
    """
    changed = []
    for one, other in itertools.zip_longest(found, earlier, fillvalue=("", -1)):
        is_same = one[:2] == [os.path.basename(other[0]), other[1]]
        if not is_same or one[3:] != (other[3:] or one[3:]):
            changed.append(one[0] or other[0])
    return changed


@functools.cache
def _content_hash(path, *_):
    """The hash of a file, read again when its size or time is another."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
