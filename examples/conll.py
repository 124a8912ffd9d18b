"""Reads column files in the manner of CoNLL-2012, for `srl.py` and `coref.py` to import."""

from features import open_text


def read_conll(path):
    """Reads a file sentence by sentence.

    Args:
        path: A file of columns, parted by white space, with an empty line after each sentence and
            lines such as `#begin document (nw/wsj_0001); part 000` between documents; plain, .gz
            or .xz.

    Yields:
        For each sentence the number of the line behind it, the last line that began a document
        (or `None`), and its rows, lists of columns.
    """
    number, document, rows = 0, None, []
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            if line.strip() and not line.startswith("#"):
                rows.append(line.split())
                continue
            if rows:
                yield number, document, rows
                rows = []
            if line.startswith("#begin document"):
                document = line.strip()
    if rows:
        yield number + 1, document, rows
