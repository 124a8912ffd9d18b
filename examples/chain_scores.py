"""The scores of coreference chains, by the package scorch, for `coref.py` to import."""

import numpy as np
from scorch.scores import b_cubed, ceaf_e, muc

METRICS = ("MUC", "B3", "CEAF")


def scores(true, predicted):
    """The F1 of MUC, B3 and CEAF (phi 4) over all documents, in percent, and their mean.

    Args:
        true, predicted: For each document a list of its chains, sets of spans.
    """
    true, predicted = (
        [{(i, *span) for span in chain} for i, chains in enumerate(x) for chain in chains]
        for x in (true, predicted)
    )
    f1s = [0.0] * 3
    if set().union(*true) & set().union(*predicted):  # scorch fails where nothing is right
        f1s = [100 * float(score(true, predicted)[2]) for score in (muc, b_cubed, ceaf_e)]
    return {**dict(zip(METRICS, f1s)), "mean": float(np.mean(f1s))}
