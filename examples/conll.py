"""Reads column files in the format of CoNLL-2012, for `srl.py` and `coref.py` to import."""

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


def tags_of_brackets(column):
    """BIO tags of a column such as `(ARG0*`, `*)`, `(V*)`, `*`."""
    tags, label = [], None
    for cell in column:
        begins = cell.startswith("(")
        if begins:
            label = cell[1:].split("*")[0]
        tags.append("O" if label is None else f"{'B' if begins else 'I'}-{label}")
        if cell.endswith(")"):
            label = None
    return tags


def mentions_of_brackets(column):
    """The mentions `(chain, first, last)` of a column such as `(1`, `-`, `1)|(2)`."""
    found, begun = [], {}
    for i, cell in enumerate(column):
        for part in () if cell in ("-", "_") else cell.split("|"):
            chain = int(part.strip("()"))
            if part.startswith("("):
                begun.setdefault(chain, []).append(i)
            if part.endswith(")"):
                found.append((chain, begun[chain].pop() if begun.get(chain) else None, i))
    if any(first is None for _, first, _ in found) or any(begun.values()):
        raise ValueError("a mention that begins or ends elsewhere")
    return found
