r"""Which words refer to the same thing? Coreference with GloVe and ELMo.

    python examples/coref.py --train train.conll --dev dev.conll --test test.conll \
        --features glove glove+elmo --seeds 3 --output coref_output
    python examples/coref.py --model coref_output/glove+elmo.keras \
        --chains "Ann Lee saw her brother ." "She called him ."

The model of Lee et al. 2017: each span of words is scored as a mention, the best ones look for
their antecedent among the mentions before them, and linked mentions form a chain. ELMo is added to
the input, as in Peters et al. 2018. Speakers and genres are not read.

Files are in the format of CoNLL-2012, which LitBank also uses. README.md in this folder says
where to get them. If the training text has chains of a single mention, as LitBank does, the
model learns to find these too.

The first run computes ELMo's vectors and caches them in `--cache`. The output folder gets
results.md, .csv and .json (mean and deviation over the seeds), the same for each run, the chains
found in the test file as JSON lines, a picture of the scores, and the best model of each feature
set. The score is the mean of the F1 of MUC, B3 and CEAF (phi 4), computed by the package scorch.
"""

import functools
from pathlib import Path

import keras
import numpy as np
from keras import ops

import harness
from bilstm import BiLSTM
from chain_scores import METRICS, scores
from conll import Documents
from features import PADDING, SentenceBatches, prepare
from spans import LONGEST, AntecedentScores, SpanVectors, best_spans
from task_model import TaskModel

# 1. The data: documents and the chains of mentions in them, which `conll.Documents` reads.


class DocumentBatches(SentenceBatches):
    """Documents, one by one, as dicts of inputs.

    The inputs of `SentenceBatches` for its sentences, and

    - `"tokens"`: int32 `(T,)`, places of its words among the words of the padded sentences;
    - `"spans"`: int32 `(M, 2)`, first and last word of the mentions that the model keeps, padded
      with -1.

    Labels are int32 `(M,)`: the number of the chain of each mention, from 1, or 0.

    Args:
        ranges: As for `Documents`.
        model: The `CoreferenceModel` that chooses the mentions.
        chains: As for `Documents`, or `None` for no labels.
        fewest: Keep at least this many mentions; a text of few words has more of them per word.
    """

    def __init__(self, sentences, words, ranges, model, chains=None, fewest=1, **options):
        self.ranges, self.model, self.fewest = ranges, model, fewest
        super().__init__(sentences, words, labels=chains, batch_size=1, **options)

    def _sizes(self):
        return np.array([self.lengths[first:end].sum() for first, end in self.ranges])

    def _inputs(self, rows):
        first, end = self.ranges[rows[0]]
        sentences = np.arange(first, end)
        # JAX compiles few shapes: the number of sentences and of words is rounded up.
        repeated = np.pad(sentences, (0, -len(sentences) % 8), mode="edge")
        inputs = super()._inputs(repeated)
        width, lengths = inputs["words"].shape[1], self.lengths[sentences]
        tokens = np.concatenate([i * width + np.arange(n) for i, n in enumerate(lengths)])
        inputs["tokens"] = np.pad(tokens, (0, -len(tokens) % 128)).astype(np.int32)
        scores = np.array(self.model.predict_on_batch(inputs))[: len(tokens)]
        most, size = (
            max(self.fewest, round(self.model.kept * len(x))) for x in (tokens, inputs["tokens"])
        )
        kept = best_spans(scores, lengths, most)
        inputs["spans"] = np.pad(kept, ((0, size - len(kept)), (0, 0)), constant_values=-1)
        return inputs

    def _labels(self, rows, inputs):
        numbers = {x: i for i, chain in enumerate(self.labels[rows[0]], start=1) for x in chain}
        return np.array([numbers.get(tuple(span), 0) for span in inputs["spans"]], np.int32)


# 2. The model.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class CoreferenceModel(TaskModel):
    """End-to-end coreference.

    Args:
        singletons: Whether mentions without an antecedent may be chains of their own.
        kept: How many mentions to keep, per word of the document.
        num_antecedents: Among how many mentions before one to look for its antecedent.
        hidden_units: Size of the layers that score.
        hidden_dropout: Fraction to drop of them, and of the LSTM's output.
        units: Size of the LSTM, in each direction.
        **options: Passed to `TaskModel`.

    Call arguments:
        inputs: Dict of `DocumentBatches`: "words", "tokens", "spans", and "layers" or "elmo" for
            ELMo.

    Returns:
        Dict of floats: "mentions" `(M,)`, the scores of the mentions, and "antecedents"
        `(M, 1 + num_antecedents)`, from `AntecedentScores`. Without "spans", the scores of all
        spans as mentions: floats `(T, LONGEST)`, of the spans that begin at a word, by their
        length.

    Reference: Lee et al. 2017, sections 3 to 5; Peters et al. 2018, section 4.
    """

    def __init__(
        self,
        singletons=False,
        kept=0.25,
        num_antecedents=50,
        hidden_units=150,
        hidden_dropout=0.2,
        dropout=0.5,
        **options,
    ):
        super().__init__(dropout=dropout, **options)
        self.singletons = singletons
        self.kept = kept
        self.num_antecedents = num_antecedents
        self.hidden_units = hidden_units
        self.hidden_dropout = hidden_dropout
        self.encoder = BiLSTM(self.units)
        self.span_vectors = SpanVectors()
        self.hidden = [keras.layers.Dense(hidden_units, activation="relu") for _ in range(2)]
        self.mention_score = keras.layers.Dense(1)
        self.antecedents = AntecedentScores(num_antecedents, hidden_units, hidden_dropout)
        self.hidden_drop = keras.layers.Dropout(hidden_dropout)
        self.build()

    def build_task(self, width, elmo_width):
        shapes = (None, width), (None, 2 * self.units)
        self.encoder.build((None, None, width))
        self.span_vectors.build(*shapes)
        span = self.span_vectors.compute_output_shape(*shapes)
        for layer, shape in zip(self.hidden, (span, (None, self.hidden_units))):
            layer.build(shape)
        self.mention_score.build((None, self.hidden_units))
        self.antecedents.build(span)

    def call(self, inputs, training=None):
        mask = inputs["words"] != PADDING
        x = self.read(inputs, mask, training=training)
        states = self.hidden_drop(self.encoder(x, mask=mask), training=training)
        document = [
            ops.take(ops.reshape(y, (-1, y.shape[-1])), inputs["tokens"], axis=0)
            for y in (x, states)
        ]
        if "spans" not in inputs:
            starts = ops.arange(ops.shape(inputs["tokens"])[0], dtype="int32")
            spans = (self.span_vectors(*document, starts, starts + i) for i in range(LONGEST))
            return ops.stack([self._score_mentions(x, training) for x in spans], axis=1)
        first, last = ops.unstack(inputs["spans"], 2, axis=1)
        spans = self.span_vectors(*document, first, last)
        mentions = ops.where(first >= 0, self._score_mentions(spans, training), -1e4)
        antecedents = self.antecedents(spans, mentions, training=training)
        return {"mentions": mentions, "antecedents": antecedents}

    def _score_mentions(self, spans, training):
        for layer in self.hidden:
            spans = self.hidden_drop(layer(spans), training=training)
        return self.mention_score(spans)[:, 0]

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        scores, valid = y_pred["antecedents"], ops.cast(x["spans"][:, 0] >= 0, "float32")
        others, exists = self.antecedents.before(ops.shape(y)[0])
        chain = ops.expand_dims(y, 1)
        right = (ops.take(y, others) == chain) & exists & (chain > 0)
        none = ~ops.any(right, axis=1, keepdims=True)
        right = ops.where(ops.concatenate([none, right], axis=1), scores, -1e4)
        losses = ops.logsumexp(scores, axis=1) - ops.logsumexp(right, axis=1)
        if self.singletons:
            is_mention = ops.cast(y > 0, "float32")
            losses += ops.softplus(y_pred["mentions"]) - is_mention * y_pred["mentions"]
        return sum(self.losses, ops.sum(losses * valid) / ops.sum(valid))

    def predict_chains(self, batches):
        """The chains of the documents of `DocumentBatches`, in their order, as sets of spans."""
        chains = [None] * len(batches.rows)
        for rows, inputs, predicted in self.predictions(batches):
            chains[rows[0]] = self._chains(inputs["spans"].tolist(), predicted)
        return chains

    def _chains(self, spans, predicted):
        best = predicted["antecedents"].argmax(1)
        chain_of, chains = {}, []
        for i, span in enumerate(map(tuple, spans)):
            if best[i]:
                chain = chain_of[i - best[i]]
            else:
                chain = set()
                chains.append((i, chain))
            chain.add(span)
            chain_of[i] = chain
        alone = predicted["mentions"] > 0 if self.singletons else np.zeros(len(spans), bool)
        return [chain for i, chain in chains if len(chain) > 1 or alone[i]]

    def chains(self, sentences):
        """The chains of a text.

        Args:
            sentences: Strings to be split at white space, or lists of tokens.

        Returns:
            A list of chains, each a list of mentions `(sentence, first, last)`.
        """
        sentences = harness.sentences_of(sentences)
        ranges = np.array([[0, len(sentences)]])
        options = {"ranges": ranges, "model": self, "fewest": 20}
        batches = self.batches_of(sentences, DocumentBatches, **options)
        place = [(i, j) for i, sentence in enumerate(sentences) for j in range(len(sentence))]
        (chains,) = self.predict_chains(batches)
        return [[(*place[a], place[b][1]) for a, b in sorted(chain)] for chain in chains]

    def get_config(self):
        return {
            **super().get_config(),
            "singletons": self.singletons,
            "kept": self.kept,
            "num_antecedents": self.num_antecedents,
            "hidden_units": self.hidden_units,
            "hidden_dropout": self.hidden_dropout,
        }


# 3. The experiment: one run with one seed.


class Experiment:
    """Trains and tests a model with a feature set and a seed.

    Args:
        settings: The options of the command line.
    """

    def __init__(self, settings):
        self.settings = settings
        self.data = {part: Documents(getattr(settings, part)) for part in ("dev", "test")}
        self.data["train"] = Documents(settings.train, settings.max_sentences)
        sentences = {part: data.sentences for part, data in self.data.items()}
        self.prepare = functools.cache(lambda name: prepare(name, settings, sentences))

    def __call__(self, features, seed):
        data, settings = self.data["train"], self.settings
        rows = harness.fraction_of(len(data.ranges), settings.fraction, seed)
        inputs = self.prepare(features)
        inputs = inputs.trained_on([i for row in rows for i in range(*data.ranges[row])])
        model = CoreferenceModel.of(
            features,
            inputs,
            settings,
            singletons=data.singletons,
            kept=settings.kept,
            num_antecedents=settings.num_antecedents,
        )
        train = self.batches(inputs, "train", model, chains=data.chains, rows=rows, seed=seed)
        dev, test = (self.batches(inputs, part, model) for part in ("dev", "test"))
        best, epoch = harness.train(
            model, train, lambda: self.scores("dev", model.predict_chains(dev))["mean"], settings
        )
        predicted = model.predict_chains(test)
        path = Path(settings.output) / f"{features}-{seed}.jsonl"
        harness.write_json_lines(path, ([*map(sorted, chains)] for chains in predicted))
        test = self.scores("test", predicted)
        result = {
            "dev": best,
            "test": test.pop("mean"),
            **test,
            "best epoch": epoch,
            "input weights": harness.mix_weights(model.input_mix),
        }
        return result, model

    def batches(self, inputs, part, model, **options):
        ranges = self.data[part].ranges
        return inputs.batches(part, kind=DocumentBatches, ranges=ranges, model=model, **options)

    def scores(self, part, predicted):
        return scores(self.data[part].chains, predicted)


# 4. The command line.


def run(settings):
    """Trains with all feature sets and seeds, draws the scores, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    runs = [run for run in harness.read_runs(settings.output) if run["seed"] <= settings.seeds]
    scores = {
        features: {x: [run[x] for run in runs if run["features"] == features] for x in METRICS}
        for features in settings.features
    }
    harness.draw_scores(scores, "Chains", Path(settings.output) / "scores.png")
    return summary


def parse(arguments=None):
    parser = harness.make_parser(__doc__.splitlines()[0], output="coref_output")
    parser.set_defaults(batch_size=1, learning_rate=0.002)
    parser.add_argument("--units", type=harness.positive, default=100, help="size of the LSTM")
    parser.add_argument(
        "--kept", type=float, default=0.25, help="mentions to keep per word (the paper: 0.4)"
    )
    parser.add_argument(
        "--num-antecedents",
        type=harness.positive,
        default=50,
        help="mentions to look for an antecedent among (the paper: 250)",
    )
    parser.add_argument(
        "--max-sentences",
        type=harness.positive,
        default=20,
        help="training documents are cut into pieces of this many sentences",
    )
    parser.add_argument("--model", help="a saved model, to find chains with")
    parser.add_argument("--chains", nargs="+", metavar="SENTENCE", help="the sentences of a text")
    settings = harness.parse(parser, arguments, alone="chains")
    if settings.batch_size != 1:
        parser.error("--batch-size is 1: documents are read one by one")
    if not settings.kept > 0:
        parser.error("--kept must be above 0")
    return settings


def show_chains(path, sentences):
    """Prints the chains of a text that have more than one mention, a line each."""
    words = harness.sentences_of(sentences)
    chains = keras.models.load_model(path, compile=False).chains(words)
    chains = [chain for chain in chains if len(chain) > 1]
    if not chains:
        print("no chain")
    for chain in chains:
        print(" = ".join(f"{' '.join(words[i][a : b + 1])} ({i + 1})" for i, a, b in chain))


if __name__ == "__main__":
    settings = parse()
    if settings.chains is None:
        run(settings)
    else:
        show_chains(settings.model, settings.chains)
