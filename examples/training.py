"""Batches, learning rate and predictions of Keras models that read sentences, to import."""

import operator

import keras
import numpy as np

MIN_STEPS = 100  # per epoch: a small training text is repeated

# JAX has to compile. On TensorFlow, XLA would compile a graph for each length of sentences.
COMPILE_WITH_XLA = keras.backend.backend() == "jax"


class Batches(keras.utils.PyDataset):
    """Batches of items with about the same number of words, padded with zeros.

    The number of words is rounded up to a multiple of 8, so that JAX compiles few shapes.

    Args:
        items: Dicts of arrays, the inputs of a model by name. The words are the last axis of an
            array but one, or its only axis. Names that end in "elmo" have two more, the boundaries
            of the sentence.
        labels: For each item a number, or int32 `(T,)` for its words, padded with -1; or a dict of
            these. `None` for none.
        batch_size: Items in a batch.
        seed: For training: each epoch has new batches, of items of nearly the same length.
    """

    def __init__(self, items, labels=None, batch_size=32, seed=None):
        super().__init__()
        self.items = items
        self.labels = labels
        self.batch_size = batch_size
        self.sizes = np.array([sum(map(_num_words, item.values())) for item in items])
        self.random = None if seed is None else np.random.default_rng(seed)
        self.batches = self._cut(self.sizes)
        self.passes = 1 if seed is None else -(-MIN_STEPS // len(self.batches))
        self.batches *= self.passes

    def on_epoch_begin(self):
        if self.random is not None:
            noise = self.random.uniform(0.8, 1.2, (self.passes, len(self.sizes)))
            self.batches = [batch for x in noise for batch in self._cut(self.sizes * x)]

    def _cut(self, sizes):
        order = np.argsort(sizes, kind="stable")
        starts = range(0, len(order), self.batch_size)
        return [order[start : start + self.batch_size] for start in starts]

    def __len__(self):
        return len(self.batches)

    def __getitem__(self, i):
        # For TensorFlow, Keras takes a size that the first two batches share for a fixed one: the
        # width of the first is an odd multiple of 8, of the second an even one.
        remainder = {0: 8, 1: 0}.get(i)
        rows = self.batches[i]
        inputs = stack([self.items[row] for row in rows], remainder)
        if self.labels is None:
            return inputs, None
        labels = [self.labels[row] for row in rows]
        if isinstance(labels[0], dict):
            return inputs, stack(labels, remainder, value=-1)
        return inputs, stack([{"": x} for x in labels], remainder, value=-1)[""]


def _words_axis(array):
    return max(array.ndim - 2, 0)


def _num_words(array):
    return array.shape[_words_axis(array)]


def stack(dicts, remainder=None, value=0):
    """Stacks the arrays of dicts, padded to a multiple of 8 words.

    Args:
        dicts: The dicts.
        remainder: Of the number of words divided by 16: 0, 8, or `None` for either.
        value: The number to pad with.
    """
    batch = {}
    for name in dicts[0]:
        arrays = [np.asarray(one[name]) for one in dicts]
        if arrays[0].ndim:
            boundaries = 2 if name.endswith("elmo") else 0  # of the sentence
            width = max(map(_num_words, arrays)) - boundaries
            width = -(-width // 8) * 8
            if remainder is not None and width % 16 != remainder:
                width += 8
            arrays = [_padded(array, width + boundaries, value) for array in arrays]
        batch[name] = np.stack(arrays)
    return batch


def _padded(array, width, value):
    padding = [(0, 0)] * array.ndim
    padding[_words_axis(array)] = (0, width - _num_words(array))
    return np.pad(array, padding, constant_values=value)


def predict(model, items):
    """The outputs of a model for each item of a list, with the padding of its batch."""
    batches = Batches(items)
    found = [None] * len(items)
    for i, rows in enumerate(batches.batches):
        outputs = model.predict_on_batch(batches[i][0])
        for place, row in enumerate(rows):
            found[row] = keras.tree.map_structure(operator.itemgetter(place), outputs)
    return found


class HalveOnPlateau(keras.callbacks.ReduceLROnPlateau):
    """Halves the learning rate after some epochs in which a score, 0 to 1, has not improved.

    Not while the score is 0, where the model has yet to find anything. At 1 it ends the training.

    Args:
        monitor: Name of the score.
        patience: Number of epochs.
    """

    def __init__(self, monitor, patience):
        super().__init__(monitor, factor=0.5, patience=patience, mode="max", min_delta=0.0)

    def on_epoch_end(self, epoch, logs=None):
        if logs[self.monitor] > 0:
            super().on_epoch_end(epoch, logs)
        if logs[self.monitor] == 1:
            self.model.stop_training = True
