"""Probes each layer of a biLM: parts of speech, senses, neighbors. Peters et al. 2018, 5.3.

    python examples/probes.py pos --train en_ewt-ud-train.conllu --dev en_ewt-ud-dev.conllu \
        --test en_ewt-ud-test.conllu
    python examples/probes.py senses --train semcor.data.xml --wordnet index.sense \
        --test senseval2.data.xml senseval3.data.xml semeval2007.data.xml
    python examples/probes.py neighbors --word play --text text.txt \
        --sentences "They had a good play on the first day ." "He went to see the play ."

Only a linear layer is trained here, so it can only use information in the vectors. In the paper the
lower LSTM layer was better for parts of speech, the upper one for senses. Tables go to `--output`,
with the paper's figures, which are for the `original` model; those for parts of speech are on
other data. Files may be plain, .gz or .xz. README.md in this folder says where to get them,
and which scores to expect.
"""

import argparse
import collections
import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import keras
import numpy as np

from experiments import PARTS, markdown, means, positive, write_table
from keras_elmo import Embedder
from reading import open_text, parse_lines, parse_tables, read_lines, split_tokens
from word_vectors import elmo_layers, read_glove

PAPER_POS = {1: 97.3, 2: 96.8}  # table 6, the accuracy on the Penn Treebank
PAPER_SENSES = {"first sense": 65.9, 1: 67.4, 2: 69.0}  # table 5, F1 over all sets


def layer_name(number):
    return "tokens" if number == 0 else f"LSTM {number}"


# 1. Parts of speech: a linear classifier on each layer.


def read_conllu(path, column="xpos"):
    """Reads a treebank: for each sentence its words, and their tags of a column.

    Raises:
        ValueError: if a sentence is not in CoNLL-U format, or the file has none.
    """
    place = {"upos": 3, "xpos": 4}[column]

    def parse(rows):
        words = [row for row in rows if row[0].isdigit()]  # no range (3-4) or empty word (5.1)
        if {len(row) for row in rows} != {10}:
            raise ValueError("not ten columns")
        return [row[1].replace(" ", "") for row in words], [row[place] for row in words]

    return parse_tables(path, parse, "the ten columns of CoNLL-U")


def probe_pos(settings):
    """Accuracy of a linear classifier on each layer, a row of the table for each."""
    data = {part: read_conllu(vars(settings)[part], settings.column) for part in PARTS}
    layers = {
        part: elmo_layers(settings.elmo, [words for words, _ in data[part]], settings.cache)
        for part in data
    }
    tags = {part: [tag for _, tags in data[part] for tag in tags] for part in data}
    names = {tag: i for i, tag in enumerate(sorted(set(tags["train"])))}
    labels = {part: np.array([names.get(tag, -1) for tag in tags[part]]) for part in tags}
    rows = []
    for number in range(len(layers["train"][0])):
        inputs = standardized(
            {part: np.concatenate([x[number] for x in layers[part]]) for part in layers}
        )
        scores = {"dev": [], "test": []}
        for seed in range(1, settings.seeds + 1):
            keras.utils.set_random_seed(seed)
            model = linear_classifier(inputs["train"], labels["train"], len(names), settings.epochs)
            for part in scores:
                found = model.predict(inputs[part], batch_size=4096, verbose=0).argmax(-1)
                scores[part].append(100 * float(np.mean(found == labels[part])))
        row = {"layer": layer_name(number), "seeds": settings.seeds, **means(scores)}
        rows.append({**row, "paper (other data)": PAPER_POS.get(number)})
        print(f"{row['layer']}: test {row['test']:.2f}", flush=True)
    return rows


def standardized(inputs):
    """Brings every number to mean 0 and deviation 1 on the training text."""
    inputs = {part: x.astype("float32") for part, x in inputs.items()}
    mean, deviation = inputs["train"].mean(0), inputs["train"].std(0) + 1e-6
    return {part: (x - mean) / deviation for part, x in inputs.items()}


def linear_classifier(inputs, labels, num_classes, epochs):
    """A linear layer and a softmax, trained with a decaying learning rate."""
    model = keras.Sequential([keras.layers.Dense(num_classes)])
    steps = epochs * -(-len(inputs) // 256)
    rate = keras.optimizers.schedules.CosineDecay(0.005, steps)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss)
    model.fit(inputs, labels, batch_size=256, epochs=epochs, verbose=0)
    return model


# 2. Word senses: the nearest mean vector of a sense in SemCor.

PARTS_OF_SPEECH = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


@dataclasses.dataclass
class Instance:
    """A word to disambiguate: the tokens `start` to `stop` of a sentence.

    Args:
        word: Its lemma and part of speech.
        keys: WordNet's keys of its senses; more than one where any of them is correct.
    """

    start: int
    stop: int
    word: tuple
    keys: list


def word_of(key):
    """The lemma and part of speech of a sense key such as `play%1:04:00::`."""
    lemma, _, rest = key.partition("%")
    return lemma, PARTS_OF_SPEECH[rest[0]]


def read_inventory(path):
    """WordNet's senses from its `index.sense`: `{word: keys}`, the first sense first.

    Raises:
        ValueError: if a line is not one of such a file.
    """

    def parse(line):
        key, _, number, _ = split_tokens(line)
        return word_of(key), int(number), key

    senses = collections.defaultdict(list)
    for word, _, key in sorted(parse_lines(path, parse, "WordNet's index.sense")):
        senses[word].append(key)
    return senses


def read_senses(path):
    """Yields the sentences of a file, lists of tokens, and the list of their `Instance`s.

    Args:
        path: A `.data.xml` file of the WSD evaluation framework, with its `.gold.key.txt` beside
            it; or a `.jsonl` file of objects with "tokens" and "keys", a list of keys or null for
            each token.
    """
    rows = _rows_of_json if ".jsonl" in Path(path).name else _rows_of_xml
    for words in rows(path):
        tokens, instances = [], []
        for text, word, keys in words:
            parts = [part for part in text.replace(" ", "_").split("_") if part] or [text]
            if keys:
                stop = len(tokens) + len(parts)
                instances.append(Instance(len(tokens), stop, word or word_of(keys[0]), keys))
            tokens += parts
        yield tokens, instances


def _rows_of_json(path):
    for sentence in map(json.loads, read_lines(path)):
        pairs = zip(sentence["tokens"], sentence["keys"])
        yield [(text, None, keys) for text, keys in pairs]


def _rows_of_xml(path):
    folder, name = Path(path).parent, Path(path).name.split(".data.xml")[0]
    keys = [folder / f"{name}.gold.key.txt{ending}" for ending in ("", ".gz", ".xz")]
    lines = read_lines(next(filter(Path.exists, keys), keys[0]))
    gold = {number: keys for number, *keys in map(split_tokens, lines)}
    with open_text(path) as file:
        for sentence in ElementTree.parse(file).iter("sentence"):
            yield [
                (x.text, (x.get("lemma"), x.get("pos")), gold.get(x.get("id"))) for x in sentence
            ]


def instance_vectors(paths, embedder):
    """Yields each `Instance` of files and its vectors `(L + 1, D)`, the mean over its tokens."""
    for path in paths:
        sentences = list(read_senses(path))
        arrays = embedder.stream(
            (tokens for tokens, _ in sentences), vectors="layers", num_sentences=len(sentences)
        )
        for (_, instances), array in zip(sentences, arrays):
            for instance in instances:
                yield instance, array[:, instance.start : instance.stop].mean(axis=1)


def mean_sense_vectors(paths, embedder, inventory):
    """The mean vectors of each sense, of length 1 in each layer: `{key: (L + 1, D)}`."""
    known = {key for keys in inventory.values() for key in keys}
    sums = {}
    for instance, vectors in instance_vectors(paths, embedder):
        for key in known.intersection(instance.keys):
            sums[key] = sums.get(key, 0.0) + vectors
    return {key: x / np.linalg.norm(x, axis=-1, keepdims=True) for key, x in sums.items()}


def choose_senses(instance, vectors, inventory, senses):
    """The key that each layer chooses: the nearest sense, or the first where none was seen."""
    keys = inventory.get(instance.word, [None])
    met = [key for key in keys if key in senses]
    if not met:
        return [keys[0]] * len(vectors)
    likeness = np.einsum("sld,ld->ls", np.stack([senses[key] for key in met]), vectors)
    return [met[best] for best in likeness.argmax(axis=1)]


def probe_senses(settings):
    """F1 of each layer on each test set and on all, a row of the table for each layer."""
    names = [Path(path).name.split(".")[0] for path in settings.test]
    if len({*names, "all"}) <= len(names):
        raise ValueError(f"Test sets need distinct names other than 'all': {', '.join(names)}.")
    embedder = Embedder(settings.elmo)
    inventory = read_inventory(settings.wordnet)
    senses = mean_sense_vectors(settings.train, embedder, inventory)
    num_layers = embedder.config.num_layers + 1
    right = {}  # {test set: [(first sense, layer 0, layer 1, ...) was correct]}
    for name, path in zip(names, settings.test):
        answers = []
        for instance, vectors in instance_vectors([path], embedder):
            first = inventory.get(instance.word, [None])[0]
            chosen = [first, *choose_senses(instance, vectors, inventory, senses)]
            answers.append([key in instance.keys for key in chosen])
        right[name] = answers
    right["all"] = [answer for answers in right.values() for answer in answers]
    rows = []
    for column, system in enumerate(["first sense", *range(num_layers)]):
        # Every word gets an answer: precision, recall and F1 are all the share of correct ones.
        scores = {name: 100 * float(np.mean(x, axis=0)[column]) for name, x in right.items()}
        name = system if column == 0 else layer_name(system)
        rows.append({"layer": name, **scores, "paper (all)": PAPER_SENSES.get(system)})
    return rows


# 3. Neighbors of a word in a sentence.


def read_text(path):
    """Sentences of a treebank, or of a text of one tokenized sentence per line."""
    if ".conllu" in Path(path).name:
        return [words for words, _ in read_conllu(path)]
    return list(map(split_tokens, read_lines(path)))


def probe_neighbors(settings):
    """The uses of a word in a text that are most similar to given sentences, by each layer."""
    word = settings.word.lower()
    text = [x for x in read_text(settings.text) if word in map(str.lower, x)]
    embedder = Embedder(settings.elmo)
    found = list(_occurrences(word, text, embedder))
    for sentence in settings.sentences:
        if word not in split_tokens(sentence.lower()):
            raise ValueError(f"{settings.word!r} is not a word of {sentence!r}.")
    if not found:
        raise ValueError(f"{settings.word!r} is not a word of any sentence in {settings.text}.")
    rows = []
    if settings.glove:
        like = ", ".join(nearest_words(word, settings.glove, settings.count))
        rows.append({"layer": "GloVe", "sentence": word, "nearest": like})
    for sentence, vectors in _occurrences(word, map(split_tokens, settings.sentences), embedder):
        for number in range(1, len(vectors)):
            likeness = [vectors[number] @ other[number] for _, other in found]
            for i in np.argsort(likeness)[::-1][: settings.count]:
                row = {"layer": layer_name(number), "sentence": sentence, "nearest": found[i][0]}
                rows.append({**row, "cosine": float(likeness[i])})
    return rows


def _occurrences(word, sentences, embedder):
    """Yields sentences, the word in capitals, and the word's vectors `(L + 1, D)` of length 1."""
    sentences = list(sentences)
    for tokens, array in zip(sentences, embedder.stream(sentences, vectors="layers")):
        for place, token in enumerate(tokens):
            if token.lower() == word:
                shown = [*tokens[:place], token.upper(), *tokens[place + 1 :]]
                vectors = array[:, place]
                yield " ".join(shown), vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def nearest_words(word, glove, count):
    """The words with the nearest GloVe vectors, which are the same in every sentence."""
    words, vectors = read_glove(glove, [[word]])
    if word not in words:
        raise ValueError(f"{word!r} has no vector in {glove}.")
    vectors = vectors[2:] / np.linalg.norm(vectors[2:], axis=-1, keepdims=True)
    order = np.argsort(vectors @ vectors[words.index(word)])[::-1]
    return [words[i] for i in order[1 : count + 1]]


# 4. The command line.


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    pos = commands.add_parser("pos", help="parts of speech by a linear layer")
    pos.add_argument("--train", required=True, help="treebank, .conllu")
    pos.add_argument("--dev", required=True)
    pos.add_argument("--test", required=True)
    pos.add_argument("--column", choices=("xpos", "upos"), default="xpos", help="kind of tags")
    pos.add_argument("--epochs", type=positive, default=5)
    pos.add_argument("--seeds", type=positive, default=1, help="how often to train")
    pos.add_argument("--cache", default="elmo_cache", help="folder of computed ELMo vectors")
    senses = commands.add_parser("senses", help="word senses by nearest mean vector")
    senses.add_argument("--train", nargs="+", required=True, help="SemCor, .data.xml or .jsonl")
    senses.add_argument("--test", nargs="+", required=True, help="test sets")
    senses.add_argument("--wordnet", required=True, help="index.sense of WordNet 3.0")
    neighbors = commands.add_parser("neighbors", help="similar uses of a word")
    neighbors.add_argument("--word", default="play")
    neighbors.add_argument("--text", required=True, help=".conllu, or one sentence per line")
    neighbors.add_argument("--sentences", nargs="+", required=True, help="sentences with the word")
    neighbors.add_argument("--glove", help="GloVe file or package to compare with")
    neighbors.add_argument("--count", type=positive, default=3, help="neighbors to show")
    for command in (pos, senses, neighbors):
        command.add_argument("--elmo", default="default", help="name or folder of an ELMo model")
        command.add_argument("--output", default="probes_output", help="folder for the table")
    return parser.parse_args(arguments)


def run(settings):
    """Runs one probe, writes its table and returns the rows."""
    probes = {"pos": probe_pos, "senses": probe_senses, "neighbors": probe_neighbors}
    rows = probes[settings.command](settings)
    write_table(Path(settings.output) / settings.command, rows)
    print(markdown(rows), end="")
    return rows


if __name__ == "__main__":
    run(parse())
