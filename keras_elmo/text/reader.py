"""Reading corpora: text files of one tokenized sentence a line, plain or compressed."""

import contextlib
import dataclasses
import glob
import gzip
import lzma
import os
import zlib

_OPENED_BY = {".gz": gzip.open, ".xz": lzma.open}


@dataclasses.dataclass
class TextReport:
    """What was read from a corpus, and what was odd about it.

    Args:
        files: Files read.
        sentences: Lines with at least one token.
        tokens: Their tokens, without boundaries.
        blank_lines: Lines without a token, skipped.
        invalid_lines: Lines with bytes that are no UTF-8. The bytes are dropped, the line is kept.
        empty_files: Names of files without a sentence.
    """

    files: int = 0
    sentences: int = 0
    tokens: int = 0
    blank_lines: int = 0
    invalid_lines: int = 0
    empty_files: list = dataclasses.field(default_factory=list)

    @property
    def predictions(self):
        """Words a language model predicts in one direction: every token, and every end."""
        return self.tokens + self.sentences

    def oddities(self):
        """What a user should know of the corpus, a list of phrases; empty where all is well."""
        found = []
        if self.blank_lines:
            found.append(f"{self.blank_lines:,} blank lines (skipped)")
        if self.invalid_lines:
            found.append(f"{self.invalid_lines:,} lines with invalid UTF-8 (those bytes dropped)")
        if self.empty_files:
            names = ", ".join(self.empty_files[:3]) + ", ..." * (len(self.empty_files) > 3)
            found.append(f"{len(self.empty_files):,} files without a sentence ({names})")
        return found


def read_sentences(path, report=None):
    """Reads the sentences of one file as lists of tokens, in a stream.

    Tokens are what ASCII white space separates, as UTF-8 `bytes`; other white space stays inside
    its token. A line may end in LF or CRLF.

    Args:
        path: Text, plain or with a name in `.gz` or `.xz`.
        report: A `TextReport` to add to.

    Yields:
        Non-empty lists of `bytes`.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if a compressed file is damaged or cut off.

    Example:

    >>> next(read_sentences("heldout.txt"))
    [b'Hello', b',', b'world']
    """
    report = TextReport() if report is None else report
    report.files += 1
    sentences_before = report.sentences
    with readable(path), open_text(path) as file:
        for line in file:
            tokens = _valid_utf8(line, report).split()
            if not tokens:
                report.blank_lines += 1
                continue
            report.sentences += 1
            report.tokens += len(tokens)
            yield tokens
    if report.sentences == sentences_before:
        report.empty_files.append(os.path.basename(path))


def _valid_utf8(line, report):
    try:
        line.decode()
    except UnicodeDecodeError:
        report.invalid_lines += 1
        return line.decode("utf-8", "ignore").encode()
    return line


def find_files(files):
    """Lists the files of a corpus.

    Args:
        files: A path, a glob pattern such as `"shards/*.gz"`, or a list of such.

    Returns:
        List of paths, sorted within each pattern, without repetitions.

    Raises:
        FileNotFoundError: if a path does not exist or a pattern matches no file.

    Example:

    >>> find_files("1b-word/training-monolingual.tokenized.shuffled/*")
    """
    patterns = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    found = {}
    for pattern in map(os.fspath, patterns):
        # A name with brackets in it may be a file's own.
        matches = [pattern] if os.path.isfile(pattern) else sorted(glob.glob(pattern))
        matches = [path for path in matches if os.path.isfile(path)]
        if not matches:
            raise FileNotFoundError(
                f"No text file matches {pattern!r}. Give a file or a pattern such as 'shards/*.gz'."
            )
        found.update(dict.fromkeys(matches))
    if not found:
        raise FileNotFoundError("The list of text files is empty.")
    return list(found)


def open_text(path):
    """Opens a text file for reading bytes, decompressed where its name ends in .gz or .xz."""
    return _OPENED_BY.get(os.path.splitext(path)[1], open)(path, "rb")


def decompressed(file, name):
    """An open file of bytes as a text file of that name is to be read: see `open_text`."""
    opened_by = _OPENED_BY.get(os.path.splitext(name)[1])
    return file if opened_by is None else opened_by(file, "rb")


@contextlib.contextmanager
def readable(path):
    """Tells of a damaged compressed file by a ValueError."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
        raise ValueError(
            f"{path} is damaged or cut off: it cannot be decompressed ({error}). Fetch it again."
        ) from None
