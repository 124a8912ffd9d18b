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

The score is the mean of the F1 of MUC, B3 and CEAF (phi 4), computed by the package scorch.
"""

from pathlib import Path

import keras
import numpy as np
from keras import ops
from scorch.scores import b_cubed, ceaf_e, muc

import harness
from bilstm import BiLSTM
from conll import Documents, read_documents
from features import PADDING, SentenceBatches
from reading import sentences_of
from spans import LONGEST, AntecedentScores, SpanVectors, best_spans
from task_model import TaskModel

# 1. The data: documents and the chains of mentions in them, which `read_documents` reads.


class DocumentBatches(SentenceBatches):
    """Documents, one by one, as dicts of inputs.

    The inputs of `SentenceBatches` for its sentences, and

    - `"tokens"`: int32 `(T,)`, places of its words among the words of the padded sentences;
    - `"spans"`: int32 `(M, 2)`, first and last word of the mentions that the model keeps, padded
      with -1.

    Labels are int32 `(M,)`: the number of the chain of each mention, from 1, or 0.

    Args:
        data: `Documents`.
        model: The `CoreferenceModel` that chooses the mentions.
        fewest: Keep at least this many mentions; a text of few words has more of them per word.
    """

    def __init__(self, data, words, model, fewest=1, **options):
        self.model, self.fewest = model, fewest
        super().__init__(data, words, **{**options, "batch_size": 1})

    @staticmethod
    def sentences_of(item):
        return np.arange(*item)

    def inputs(self, rows):
        sentences = np.arange(*self.data.items[rows[0]])
        # JAX compiles few shapes: the number of sentences and of words is rounded up.
        inputs = self.read(np.pad(sentences, (0, -len(sentences) % 8), mode="edge"))
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

    def labels_of(self, rows, inputs):
        numbers = {x: i for i, chain in enumerate(self.labels[rows[0]], start=1) for x in chain}
        return np.array([numbers.get(tuple(span), 0) for span in inputs["spans"]], np.int32)


# 2. The model.


@keras.saving.register_keras_serializable("keras_elmo_examples")
class CoreferenceModel(TaskModel):
    """End-to-end coreference.

    Args:
        singletons: Whether mentions without an antecedent may be chains of their own.
        kept: How many mentions to keep, per word of the document (the paper: 0.4).
        num_antecedents: Among how many mentions before one to look for its antecedent (the paper:
            250).
        **options: Passed to `TaskModel`; `units` is the size of the LSTM, in each direction.

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

    batches = DocumentBatches

    def __init__(self, singletons=False, kept=0.25, num_antecedents=50, dropout=0.5, **options):
        super().__init__(dropout=dropout, **options)
        self.singletons = singletons
        self.kept = kept
        self.num_antecedents = num_antecedents
        self.encoder = BiLSTM(self.units)
        self.span_vectors = SpanVectors()
        self.hidden = [keras.layers.Dense(150, activation="relu") for _ in range(2)]
        self.mention_score = keras.layers.Dense(1)
        self.antecedents = AntecedentScores(num_antecedents, 150, 0.2)
        self.hidden_drop = keras.layers.Dropout(0.2)
        self.build()

    def example(self, words):
        one = np.zeros(1, "int32")
        return {**super().example(words), "tokens": one, "spans": np.zeros((1, 2), "int32")}

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
        is_first = ~ops.any(right, axis=1, keepdims=True)  # has no antecedent
        right = ops.where(ops.concatenate([is_first, right], axis=1), scores, -1e4)
        losses = ops.logsumexp(scores, axis=1) - ops.logsumexp(right, axis=1)
        if self.singletons:
            is_mention = ops.cast(y > 0, "float32")
            losses += ops.softplus(y_pred["mentions"]) - is_mention * y_pred["mentions"]
        return sum(self.losses, ops.sum(losses * valid) / ops.sum(valid))

    def batches_of(self, data, **options):
        return super().batches_of(data, model=self, **options)

    def decode(self, outputs, inputs, sizes):
        """The chains of a document, sets of spans."""
        return [self._chains(inputs["spans"].tolist(), outputs)]

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
        sentences = sentences_of(sentences)
        data = Documents(sentences, items=np.array([[0, len(sentences)]]))
        place = [(i, j) for i, sentence in enumerate(sentences) for j in range(len(sentence))]
        (chains,) = self.predict_items(self.batches_of(data, fewest=20))
        return [[(*place[a], place[b][1]) for a, b in sorted(chain)] for chain in chains]


# 3. The experiment: one run with one seed.

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


class Experiment(harness.Experiment):
    model = CoreferenceModel

    def __init__(self, settings):
        data = {part: read_documents(getattr(settings, part)) for part in ("dev", "test")}
        data["train"] = read_documents(settings.train, max_sentences=20)
        options = {"singletons": data["train"].singletons, "kept": settings.kept}
        super().__init__(settings, data, **options)

    def score(self, data, predicted):
        """The mean of the F1 of MUC, B3 and CEAF, and each of them."""
        found = scores(data.answers, predicted)
        return found.pop("mean"), found

    def write(self, path, data, predicted):
        chains = ([*map(sorted, chains)] for chains in predicted)
        harness.write_json_lines(f"{path}.jsonl", chains)


def run(settings):
    """Trains with all feature sets and seeds, draws the scores, returns the rows of the table."""
    summary = harness.run_seeds(Experiment(settings), settings)
    runs = [run for run in harness.read_runs(settings.output) if run["seed"] <= settings.seeds]
    scores = {
        features: {x: [run[x] for run in runs if run["features"] == features] for x in METRICS}
        for features in settings.features
    }
    harness.draw_scores(
        scores, "Coreference chains, by metric", Path(settings.output) / "scores.png"
    )
    return summary


# 4. The command line.


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "the sentences of a text"}
    defaults = {"output": "coref_output", "learning_rate": 0.002}
    parser = harness.make_parser(__doc__, "chains", defaults, **options)
    parser.add_argument("--kept", type=float, default=0.25, help="mentions per word")
    return harness.parse(parser, arguments)


def show(model, sentences):
    """Prints the chains of a text that have more than one mention, a line each."""
    words = sentences_of(sentences)
    chains = [chain for chain in model.chains(words) if len(chain) > 1]
    for chain in chains:
        print(" = ".join(f"{' '.join(words[i][a : b + 1])} ({i + 1})" for i, a, b in chain))
    if not chains:
        print("no chain")


if __name__ == "__main__":
    harness.main(parse(), run, show)
