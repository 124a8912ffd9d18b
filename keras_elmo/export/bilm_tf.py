"""Models for bilm-tf and AllenNLP."""

import os

from keras_elmo.atomic import atomic_folder
from keras_elmo.export.checks import check_layer, layer_outputs, verified
from keras_elmo.layers.elmo_layer import ElmoLayer


def export_bilm_tf(
    layer: ElmoLayer, folder: str | os.PathLike, overwrite: bool = False
) -> dict[str, float]:
    """Writes options.json and weights.hdf5, which bilm-tf and AllenNLP read, and verifies them.

    As `ElmoLayer.export_hdf5`, but whole or not at all. Arguments and errors are those of
    `export_saved_model`. Returns the largest differences of `word_emb` and each `lstm_outputs`.

    Example:

    >>> export_bilm_tf(ElmoLayer(), "my_elmo")
    """
    check_layer(layer)
    with atomic_folder(folder, overwrite) as partial:
        layer.export_hdf5(partial)
        expected = layer_outputs(layer)
        for mixed in ("elmo", "default"):
            del expected[mixed]
        return verified(
            expected, [layer_outputs(ElmoLayer(partial, dtype=layer.bilm_dtype_policy))]
        )
