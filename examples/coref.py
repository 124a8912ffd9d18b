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
model learns to find these too. A run on LitBank takes at most an hour on two CPU cores.

The score is the mean of the F1 of MUC, B3 and CEAF (phi 4), computed by the package scorch.
"""

import functools
import itertools
from pathlib import Path

import keras
import numpy as np
from keras import layers
from scorch.scores import b_cubed, ceaf_e, muc

import experiments
import training
from conll import read_documents
from pictures import draw_scores
from reading import sentences_of
from spans import LONGEST, AntecedentScores, MentionScores, SpanVectors, best_spans, spans_of
from training import COMPILE_WITH_XLA, HalveOnPlateau, stack
from word_vectors import all_layers, encode, end_to_end, inputs_of, mix_layers, mix_weights, prepare

# 1. The data: documents and the chains of mentions in them, which `read_documents` reads.


def cut(document, max_sentences=20):
    """Yields the pieces of a document: the sentences and the chains in them."""
    sentences, chains = document
    for start in range(0, len(sentences), max_sentences):
        piece = sentences[start : start + max_sentences]
        numbers = range(start, start + len(piece))
        own = [{(i - start, a, b) for i, a, b in chain if i in numbers} for chain in chains]
        yield piece, [chain for chain in own if chain]


def labels_of(spans, chains):
    """int32 `(M,)`: the number of the chain of each span, from 1, or 0, or -1 at padding."""
    numbers = {span: i for i, chain in enumerate(chains, start=1) for span in chain}
    numbers[-1, -1, -1] = -1
    return np.array([numbers.get(tuple(span), 0) for span in spans.tolist()], np.int32)


# 2. The model, which takes two passes: one scores all spans as mentions, the other one links the
# best of them.


def make_linker(words, elmo, settings, singletons):
    """A Functional model from the sentences of a document, and spans of words in them.

    Its outputs are two scores, "mentions" of the spans and "antecedents" of each span.
    """
    inputs, vectors = inputs_of(words, elmo), []
    if words is not None:
        vectors.append(words(inputs["words"]))
    if elmo is not None:
        vectors.append(mix_layers(inputs["layers"], settings))
    vectors = layers.Dropout(0.5)(layers.Concatenate()(vectors))
    states = layers.Bidirectional(layers.LSTM(settings.units, return_sequences=True))(vectors)
    states = layers.Dropout(0.2)(states)

    inputs["spans"] = keras.Input((3,), dtype="int32", name="spans")
    spans = SpanVectors()(vectors, states, inputs["spans"])
    x = spans
    for _ in range(2):
        x = layers.Dropout(0.2)(layers.Dense(150, activation="relu")(x))
    mentions = MentionScores(settings.kept, singletons, name="mentions")(x, inputs["spans"])
    antecedents = AntecedentScores(name="antecedents")(spans, mentions)
    return keras.Model(inputs, {"mentions": mentions, "antecedents": antecedents})


@functools.lru_cache(maxsize=1)
def mention_finder(model):
    """The part of a linker that the first pass takes, with the same weights."""
    finder = keras.Model(model.input, model.output["mentions"])
    finder.jit_compile = COMPILE_WITH_XLA
    return finder


def scores_of_mentions(model):
    """The layer of a linker that knows how many mentions to keep."""
    return next(layer for layer in all_layers(model) if isinstance(layer, MentionScores))


def encode_document(model, items, sentences, fewest=1):
    """The inputs of a linker for a document: its sentences, and the spans to keep as mentions.

    Args:
        model: The linker.
        items: The inputs of each sentence.
        sentences: Lists of tokens.
        fewest: Keep at least this many mentions; a text of few words has more of them per word.
    """
    # JAX compiles few shapes: the numbers of sentences and words are rounded up.
    inputs = stack([*items, *[items[-1]] * (-len(items) % 8)])
    lengths = [len(tokens) for tokens in sentences]
    num_words = sum(lengths)
    rounded = -(-num_words // 128) * 128
    most, size = (
        max(fewest, round(scores_of_mentions(model).kept * n)) for n in (num_words, rounded)
    )
    spans = spans_of(lengths)
    inputs["spans"] = padded(spans, LONGEST * rounded)
    scores = mention_finder(model).predict_on_batch(inputs)[: len(spans)]
    inputs["spans"] = padded(best_spans(spans, scores, most), size)
    return inputs


def padded(spans, size):
    return np.pad(spans, ((0, size - len(spans)), (0, 0)), constant_values=-1)


def find_chains(model, items, sentences, fewest=1):
    """The chains of a document, sets of spans; for the arguments see `encode_document`."""
    inputs = encode_document(model, items, sentences, fewest)
    outputs = model.predict_on_batch(inputs)
    return linked(inputs["spans"], outputs, scores_of_mentions(model).singletons)


def linked(spans, outputs, singletons):
    """The chains of spans, by the outputs of a linker."""
    best = outputs["antecedents"].argmax(1)
    chain_of, chains = {}, []
    for i, span in enumerate(map(tuple, spans.tolist())):
        if best[i]:
            chain = chain_of[i - best[i]]
        else:
            chain = set()
            chains.append((i, chain))
        chain.add(span)
        chain_of[i] = chain
    alone = outputs["mentions"] > 0 if singletons else np.zeros(len(spans), bool)
    return [chain for i, chain in chains if len(chain) > 1 or alone[i]]


# 3. One run: training until the F1 on the development set stops rising, then the test.

METRICS = ("MUC", "B3", "CEAF")


def f1_scores(true, predicted):
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


def train(settings):
    """Trains and tests a linker; returns the scores, and the linker with ELMo in it."""
    data = experiments.read_parts(settings, read_documents)
    singletons = any(len(chain) == 1 for _, chains in data["train"] for chain in chains)
    data["train"] = [piece for document in data["train"] for piece in cut(document)]
    texts = {part: [sentences for sentences, _ in data[part]] for part in data}
    chains = {part: [chains for _, chains in data[part]] for part in data}

    # ELMo's layers do not change in the training, so they are computed before it.
    words, elmo, items = prepare(settings, {x: list(itertools.chain(*texts[x])) for x in texts})
    for part, own in items.items():
        own = iter(own)
        items[part] = [list(itertools.islice(own, len(sentences))) for sentences in texts[part]]

    keras.utils.set_random_seed(settings.seed)
    model = make_linker(words, elmo, settings, singletons)
    names = ("mentions", "antecedents") if singletons else ("antecedents",)
    model.compile(
        keras.optimizers.Adam(settings.learning_rate, global_clipnorm=5.0),
        loss={name: model.get_layer(name).loss for name in names},
        jit_compile=COMPILE_WITH_XLA,
    )

    def find(part):
        return [find_chains(model, *document) for document in zip(items[part], texts[part])]

    halve = HalveOnPlateau("val_f1", settings.halve_after)
    best = keras.callbacks.EarlyStopping(
        "val_f1", mode="max", patience=settings.patience, restore_best_weights=True
    )
    # The mentions of a batch depend on the weights, so it is made right before its step; `fit`
    # makes some batches ahead.
    callbacks = keras.callbacks.CallbackList([halve, best], model=model)
    random = np.random.default_rng(settings.seed)
    num_pieces = len(data["train"])
    passes = -(-training.MIN_STEPS // num_pieces)
    callbacks.on_train_begin()
    for epoch in range(settings.epochs):
        model.reset_metrics()
        for i in itertools.chain(*(random.permutation(num_pieces) for _ in range(passes))):
            inputs = encode_document(model, items["train"][i], texts["train"][i])
            labels = labels_of(inputs["spans"], chains["train"][i])
            logs = model.train_on_batch(inputs, dict.fromkeys(names, labels), return_dict=True)
        logs["val_f1"] = f1_scores(chains["dev"], find("dev"))["mean"] / 100
        print(f"  epoch {epoch + 1}: loss {logs['loss']:.4f}, val_f1 {logs['val_f1']:.4f}")
        callbacks.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    callbacks.on_train_end()

    found = find("test")
    path = Path(settings.output, f"{settings.features}-{settings.seed}.jsonl")
    experiments.write_json_lines(path, ([*map(sorted, document)] for document in found))
    test = f1_scores(chains["test"], found)
    scores = {
        "dev": 100 * best.best,
        "test": test.pop("mean"),
        **test,
        "best epoch": best.best_epoch + 1,
        "input weights": mix_weights(model),
    }
    return scores, end_to_end(model, elmo)


# 4. A trained linker, as `keras.models.load_model` loads it.


def chains_of(linker, sentences):
    """The chains of a text, lists of tokens: each a list of mentions `(sentence, first, last)`."""
    found = find_chains(linker, encode(linker, sentences), sentences, fewest=20)
    return [sorted(chain) for chain in found]


# 5. The command line. Without --seeds and --features it is one run.


def run(settings):
    """Trains with all feature sets and seeds, draws the scores, returns the rows of the table."""
    summary = experiments.run_seeds(train, settings)
    runs = [x for x in experiments.read_runs(settings.output) if x["seed"] <= settings.seeds]
    scores = {
        features: {x: [run[x] for run in runs if run["features"] == features] for x in METRICS}
        for features in settings.features
    }
    draw_scores(scores, "Coreference chains, by metric", Path(settings.output) / "scores.png")
    return summary


def parse(arguments=None):
    options = {"nargs": "+", "metavar": "SENTENCE", "help": "the sentences of a text"}
    defaults = {"output": "coref_output", "learning_rate": 0.002}
    parser = experiments.make_parser(__doc__, "chains", defaults, **options)
    parser.add_argument("--kept", type=float, default=0.25, help="mentions per word")
    return experiments.parse(parser, arguments)


def show(linker, sentences):
    """Prints the chains of a text that have more than one mention, a line each."""
    words = sentences_of(sentences)
    found = [chain for chain in chains_of(linker, words) if len(chain) > 1]
    for chain in found:
        print(" = ".join(f"{' '.join(words[i][a : b + 1])} ({i + 1})" for i, a, b in chain))
    if not found:
        print("no chain")


if __name__ == "__main__":
    experiments.main(parse(), run, show)
