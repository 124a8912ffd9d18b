"""Reading corpora: text files of one tokenised sentence a line, plain or compressed."""

import dataclasses
import os

from keras_elmo.files import open_text, readable


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
