"""Keras finds the package's classes in saved models, before either of the two is loaded."""

import importlib
import sys
from importlib.abc import MetaPathFinder

CLASSES = {
    "Backbone": "layers.backbone",
    "BiLMStack": "layers.bilm_stack",
    "BidirectionalLanguageModel": "training.language_model",
    "CharCNNEmbedding": "layers.char_cnn_embedding",
    "FusedAdagrad": "training.optimizer",
    "Elmo": "compat",
    "ElmoLayer": "layers.elmo_layer",
    "Highway": "layers.highway",
    "LexiconEmbedding": "layers.lexicon_embedding",
    "LexiconEncoder": "layers.lexicon_encoder",
    "Perplexity": "training.perplexity_metric",
    "ProjectedLSTM": "layers.projected_lstm",
    "TokenMask": "layers.token_mask",
    "TrapezoidSchedule": "training.optimizer",
    "UnicodeCharEncoder": "layers.unicode_char_encoder",
    "WeightedLayerSum": "layers.weighted_layer_sum",
    "WordEmbedding": "layers.word_embedding",
    "WordSoftmax": "training.word_softmax",
}
"""The module, in this package, of each class that registers itself with Keras when imported."""


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
        module = importlib.import_module(f"keras_elmo.{CLASSES[self._name]}")
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
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if module.__name__ == "keras" and self in sys.meta_path:  # loaders may be shared
                sys.meta_path.remove(self)
                _register_deferred()

        spec.loader.exec_module = exec_module
        return spec
