"""ELMo for Keras 3: contextual word vectors from a bidirectional language model."""

from keras_elmo.config import ElmoConfig
from keras_elmo.embedding.embedder import Embedder
from keras_elmo.embedding.word_cache import WordCache
from keras_elmo.export.onnx import export_onnx
from keras_elmo.export.saved_model import export_saved_model
from keras_elmo.layers.bilm_stack import BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding
from keras_elmo.layers.elmo_layer import ElmoLayer
from keras_elmo.layers.highway import Highway
from keras_elmo.layers.projected_lstm import ProjectedLSTM
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum
from keras_elmo.layers.word_embedding import WordEmbedding
from keras_elmo.pretrained.registry import get_model, list_models, register_model
from keras_elmo.text.characters import encode_sentences
from keras_elmo.text.vocabulary import Vocabulary, count_words, encode_token_ids
from keras_elmo.training.checkpoint import TrainingCheckpoint
from keras_elmo.training.corpus import LanguageModelCorpus, language_model_dataset
from keras_elmo.training.evaluation import bilm_tf_perplexity, perplexity
from keras_elmo.training.language_model import BidirectionalLanguageModel
from keras_elmo.training.optimizer import bilm_tf_optimizer
from keras_elmo.version import __version__

__all__ = [
    "BiLMStack",
    "BidirectionalLanguageModel",
    "CharCNNEmbedding",
    "ElmoConfig",
    "ElmoLayer",
    "Embedder",
    "Highway",
    "LanguageModelCorpus",
    "ProjectedLSTM",
    "TrainingCheckpoint",
    "UnicodeCharEncoder",
    "Vocabulary",
    "WeightedLayerSum",
    "WordCache",
    "WordEmbedding",
    "__version__",
    "bilm_tf_optimizer",
    "bilm_tf_perplexity",
    "count_words",
    "encode_sentences",
    "encode_token_ids",
    "export_onnx",
    "export_saved_model",
    "get_model",
    "language_model_dataset",
    "list_models",
    "perplexity",
    "register_model",
]
