"""The public names and their modules. This file is their only list: `__init__.py` reads it."""

from keras_elmo import analysis as analysis
from keras_elmo import compat as compat
from keras_elmo import plot as plot
from keras_elmo.config import ElmoConfig as ElmoConfig
from keras_elmo.embedding.embedder import Embedder as Embedder
from keras_elmo.export.hdf5 import export_hdf5 as export_hdf5
from keras_elmo.export.onnx import export_onnx as export_onnx
from keras_elmo.export.saved_model import export_saved_model as export_saved_model
from keras_elmo.layers.backbone import Backbone as Backbone
from keras_elmo.layers.bilm_stack import BiLMStack as BiLMStack
from keras_elmo.layers.char_cnn_embedding import CharCNNEmbedding as CharCNNEmbedding
from keras_elmo.layers.elmo_layer import ElmoLayer as ElmoLayer
from keras_elmo.layers.highway import Highway as Highway
from keras_elmo.layers.lexicon_embedding import LexiconEmbedding as LexiconEmbedding
from keras_elmo.layers.lexicon_encoder import LexiconEncoder as LexiconEncoder
from keras_elmo.layers.projected_lstm import ProjectedLSTM as ProjectedLSTM
from keras_elmo.layers.unicode_char_encoder import UnicodeCharEncoder as UnicodeCharEncoder
from keras_elmo.layers.weighted_layer_sum import WeightedLayerSum as WeightedLayerSum
from keras_elmo.layers.word_embedding import WordEmbedding as WordEmbedding
from keras_elmo.pretrained.registry import get_model as get_model
from keras_elmo.pretrained.registry import list_models as list_models
from keras_elmo.pretrained.registry import register_model as register_model
from keras_elmo.text.characters import encode_sentences as encode_sentences
from keras_elmo.text.lexicon import Lexicon as Lexicon
from keras_elmo.text.tokenize import tokenize as tokenize
from keras_elmo.text.vocabulary import Vocabulary as Vocabulary
from keras_elmo.text.vocabulary import count_words as count_words
from keras_elmo.text.vocabulary import encode_token_ids as encode_token_ids
from keras_elmo.training.checkpoint import TrainingCheckpoint as TrainingCheckpoint
from keras_elmo.training.corpus import LanguageModelCorpus as LanguageModelCorpus
from keras_elmo.training.corpus import language_model_dataset as language_model_dataset
from keras_elmo.training.evaluation import bilm_tf_perplexity as bilm_tf_perplexity
from keras_elmo.training.evaluation import perplexity as perplexity
from keras_elmo.training.evaluation import shared_perplexities as shared_perplexities
from keras_elmo.training.evaluation import unigram_perplexity as unigram_perplexity
from keras_elmo.training.evaluation_corpus import EvaluationCorpus as EvaluationCorpus
from keras_elmo.training.index import CorpusIndex as CorpusIndex
from keras_elmo.training.language_model import (
    BidirectionalLanguageModel as BidirectionalLanguageModel,
)
from keras_elmo.training.loading import load_language_model as load_language_model
from keras_elmo.training.neighbors import WordNeighbors as WordNeighbors
from keras_elmo.training.neighbors import word_neighbors as word_neighbors
from keras_elmo.training.optimizer import bilm_tf_optimizer as bilm_tf_optimizer
from keras_elmo.training.settings import TrainingSettings as TrainingSettings
from keras_elmo.training.train import train as train
from keras_elmo.version import __version__ as __version__
