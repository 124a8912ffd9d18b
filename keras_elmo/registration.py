"""Keras finds the package's classes in saved models, before either of the two is loaded."""

import importlib
import sys
from importlib.abc import MetaPathFinder

CLASSES = {
    "BiLMStack": "keras_elmo.layers.bilm_stack",
    "BidirectionalLanguageModel": "keras_elmo.training.language_model",
    "CharCNNEmbedding": "keras_elmo.layers.char_cnn_embedding",
    "ClippedAdagrad": "keras_elmo.training.optimizer",
    "ClippedAdam": "keras_elmo.training.optimizer",
    "ElmoLayer": "keras_elmo.layers.elmo_layer",
    "Highway": "keras_elmo.layers.highway",
    "Perplexity": "keras_elmo.training.perplexity_metric",
    "ProjectedLSTM": "keras_elmo.layers.projected_lstm",
    "UnicodeCharEncoder": "keras_elmo.layers.unicode_char_encoder",
    "WeightedLayerSum": "keras_elmo.layers.weighted_layer_sum",
    "WordEmbedding": "keras_elmo.layers.word_embedding",
    "TrapezoidSchedule": "keras_elmo.training.optimizer",
    "WordSoftmax": "keras_elmo.training.word_softmax",
}
"""The module of each class that registers itself with Keras when its module is imported."""


def register_classes() -> None:
    """Makes Keras find each class in a saved model by its registered name.

    The module of a class is imported when a saved model has one. If Keras is not imported yet,
    this happens as soon as it is: importing it takes seconds and is left to who needs it.
    """
    if "keras" in sys.modules:
        _register_deferred()
    elif not any(isinstance(finder, _AfterKeras) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterKeras())


class _DeferredClass:
    """Stands in for a class whose module is not imported yet."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        module = importlib.import_module(CLASSES[self._name])
        return getattr(getattr(module, self._name), attribute)


def _register_deferred():
    import keras

    registered = keras.saving.get_custom_objects()
    for name in CLASSES:
        # A module that is imported by now has registered its class itself.
        registered.setdefault(f"keras_elmo>{name}", _DeferredClass(name))


class _AfterKeras(MetaPathFinder):
    """Registers the classes at the end of the first import of Keras."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            self._register_after(spec.loader)
        return spec

    def _register_after(self, loader):
        execute = loader.exec_module

        def exec_module(module):
            execute(module)
            sys.meta_path.remove(self)
            _register_deferred()

        loader.exec_module = exec_module
