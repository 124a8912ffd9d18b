"""Runs one ELMo implementation in its own process; standard input says what to embed.

Started by embedding.py; needs only the package that it measures (Python 3.6 or later).
Each input line is `BATCH_SIZE SENTENCES`, each output line `SECONDS PEAK_MEGABYTES`.
"""

import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
WIDTH = 50


def ours(folder, words, dtype=None, **arguments):
    from keras_elmo import ElmoLayer, Embedder

    elmo = ElmoLayer(folder, dtype=dtype)

    def make(batch_size):
        # The budget fits exactly one batch.
        embedder = Embedder(elmo, batch_tokens=batch_size * 27, progress=False, **arguments)
        if arguments["word_cache"]:
            embedder.encode_words(words)
        return lambda batch: embedder.embed(batch, vectors="average")

    return make


def ours_cached(folder, words):
    return ours(folder, words, word_cache=1_000_000)


def ours_uncached(folder, words):
    return ours(folder, words, word_cache=0)


def ours_bfloat16(folder, words):
    return ours(folder, words, word_cache=1_000_000, dtype="bfloat16")


def ours_natural(folder, words, dtype=None):
    from keras_elmo import ElmoLayer, Embedder

    embedder = Embedder(ElmoLayer(folder, dtype=dtype), word_cache=0, progress=False)
    return lambda batch_size: lambda batch: embedder.embed(batch, vectors="average")


def ours_natural_bfloat16(folder, words):
    return ours_natural(folder, words, "bfloat16")


def bilm(folder, words):
    import tensorflow as tf
    from bilm import Batcher, BidirectionalLanguageModel

    vocabulary = folder + "/specials.txt"
    with open(vocabulary, "w") as file:
        file.write("<S>\n</S>\n<UNK>\n")

    def make(batch_size):
        tf.compat.v1.reset_default_graph()
        batcher = Batcher(vocabulary, WIDTH)
        ids = tf.compat.v1.placeholder("int32", (None, None, WIDTH))
        model = BidirectionalLanguageModel(
            folder + "/options.json", folder + "/weights.hdf5", max_batch_size=batch_size
        )
        layers = model(ids)["lm_embeddings"]
        mean = tf.reduce_mean(layers, axis=1)
        session = tf.compat.v1.Session()
        session.run(tf.compat.v1.global_variables_initializer())
        return lambda batch: session.run(mean, {ids: batcher.batch_sentences(batch)})

    return make


def simple_elmo(folder, words):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow as tf
    from simple_elmo import ElmoModel
    from simple_elmo.elmo_helpers import weight_layers

    def make(batch_size):
        tf.compat.v1.reset_default_graph()
        model = ElmoModel()
        model.load(folder, max_batch_size=batch_size)
        # Without a session of our own, it would reload the weights at every call.
        layers = model.sentence_embeddings_op
        model.elmo_sentence_input = weight_layers("input", layers, use_layers="average")
        session = tf.compat.v1.Session()
        session.run(tf.compat.v1.global_variables_initializer())
        arguments = {"warmup": False, "layers": "average", "session": session}
        return lambda batch: model.get_elmo_vectors(batch, **arguments)

    return make


def allennlp(folder, words, cached=False):
    import torch
    from simple_elmo_pytorch import Elmo, batch_to_ids
    from simple_elmo_pytorch.nn import util

    # The package lacks these two functions of AllenNLP, which do nothing for a batch of sentences.
    util.combine_initial_dims = lambda tensor: tensor
    util.uncombine_initial_dims = lambda tensor, size: tensor

    def make(batch_size):
        arguments = {"vocab_to_cache": words} if cached else {}
        model = Elmo(folder + "/options.json", folder + "/weights.hdf5", 1, dropout=0, **arguments)
        model.eval()
        word_ids = {word: i for i, word in enumerate(words)}

        def run(batch):
            with torch.no_grad():
                if not cached:
                    return model(batch_to_ids(batch))["elmo_representations"][0].numpy()
                rows = [[word_ids[token] for token in sentence] for sentence in batch]
                ids = torch.tensor(rows)
                characters = torch.ones((*ids.shape, WIDTH), dtype=torch.long)
                return model(characters, ids)["elmo_representations"][0].numpy()

        return run

    return make


def allennlp_cached(folder, words):
    return allennlp(folder, ["<S>", "</S>", *words], cached=True)


def main():
    name, folder, text = sys.argv[1:]
    # Keeps what packages print out of the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with open(text, encoding="utf-8") as file:
        sentences = [line.split() for line in file]
    words = list(dict.fromkeys(token for sentence in sentences for token in sentence))
    make, embed = globals()[name](folder, words), {}
    position = 0
    for line in sys.stdin:
        batch_size, count = map(int, line.split())
        if batch_size not in embed:
            embed[batch_size] = make(batch_size)
            for _ in range(3):
                embed[batch_size](sentences[:batch_size])
        start = time.perf_counter()
        for _ in range(0, count, batch_size):
            if position + batch_size > len(sentences):
                position = 0
            embed[batch_size](sentences[position : position + batch_size])
            position += batch_size
        seconds = time.perf_counter() - start
        print(seconds, peak_megabytes(), file=answers, flush=True)


def peak_megabytes():
    """Peak memory of this process; `resource` would include its parent's."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
