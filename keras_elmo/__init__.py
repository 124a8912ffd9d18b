"""ELMo for Keras 3: contextual word vectors from a bidirectional language model.

Importing the package is quick: each public name is imported when it is first used (PEP 562).
"""

import importlib
from typing import TYPE_CHECKING

from keras_elmo.registration import CLASSES, register_classes
from keras_elmo.version import __version__

if TYPE_CHECKING:
    from keras_elmo.config import ElmoConfig
    from keras_elmo.embedding.embedder import Embedder
    from keras_elmo.export.convert import convert
    from keras_elmo.export.onnx import export_onnx
    from keras_elmo.export.saved_model import export_saved_model
    from keras_elmo.layers.bilm_stack import BiLMStack
    from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
    from keras_elmo.layers.elmo_layer import ElmoLayer
    from keras_elmo.layers.highway import Highway
    from keras_elmo.layers.lexicon_embedding import LexiconEmbedding
    from keras_elmo.layers.lexicon_encoder import LexiconEncoder
    from keras_elmo.layers.projected_lstm import ProjectedLSTM
    from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder
    from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
    from keras_elmo.layers.word_embedding import WordEmbedding
    from keras_elmo.pretrained.registry import get_model, list_models, register_model
    from keras_elmo.text.characters import encode_sentences
    from keras_elmo.text.lexicon import Lexicon
    from keras_elmo.text.vocabulary import Vocabulary, count_words, encode_token_ids
    from keras_elmo.training.checkpoint import TrainingCheckpoint
    from keras_elmo.training.corpus import LanguageModelCorpus, language_model_dataset
    from keras_elmo.training.evaluation import bilm_tf_perplexity, perplexity
    from keras_elmo.training.evaluation_corpus import EvaluationCorpus
    from keras_elmo.training.language_model import BidirectionalLanguageModel
    from keras_elmo.training.loading import load_language_model
    from keras_elmo.training.optimizer import bilm_tf_optimizer
    from keras_elmo.training.run import train
    from keras_elmo.training.settings import TrainingSettings

__all__ = [
    "BiLMStack",
    "BidirectionalLanguageModel",
    "CharCNNEmbedding",
    "ElmoConfig",
    "ElmoLayer",
    "Embedder",
    "EvaluationCorpus",
    "Highway",
    "LanguageModelCorpus",
    "Lexicon",
    "LexiconEmbedding",
    "LexiconEncoder",
    "ProjectedLSTM",
    "TrainingCheckpoint",
    "TrainingSettings",
    "UnicodeCharEncoder",
    "Vocabulary",
    "WeightedLayerSum",
    "WordEmbedding",
    "__version__",
    "bilm_tf_optimizer",
    "bilm_tf_perplexity",
    "convert",
    "count_words",
    "encode_sentences",
    "encode_token_ids",
    "export_onnx",
    "export_saved_model",
    "get_model",
    "language_model_dataset",
    "list_models",
    "load_language_model",
    "perplexity",
    "register_model",
    "train",
]

_MODULES = {
    **CLASSES,
    "ElmoConfig": "config",
    "Embedder": "embedding.embedder",
    "EvaluationCorpus": "training.evaluation_corpus",
    "LanguageModelCorpus": "training.corpus",
    "Lexicon": "text.lexicon",
    "TrainingCheckpoint": "training.checkpoint",
    "TrainingSettings": "training.settings",
    "Vocabulary": "text.vocabulary",
    "bilm_tf_optimizer": "training.optimizer",
    "bilm_tf_perplexity": "training.evaluation",
    "convert": "export.convert",
    "count_words": "text.vocabulary",
    "encode_sentences": "text.characters",
    "encode_token_ids": "text.vocabulary",
    "export_onnx": "export.onnx",
    "export_saved_model": "export.saved_model",
    "get_model": "pretrained.registry",
    "language_model_dataset": "training.corpus",
    "list_models": "pretrained.registry",
    "load_language_model": "training.loading",
    "perplexity": "training.evaluation",
    "register_model": "pretrained.registry",
    "train": "training.run",
}

register_classes()


if not TYPE_CHECKING:  # a checker would take any name for a public one

    def __getattr__(name):
        if name in ("analysis", "compat", "plot"):
            return importlib.import_module(f"{__name__}.{name}")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
