"""Speed of training and embedding on a GPU with JAX, in tokens/s.

    KERAS_BACKEND=jax python benchmarks/gpu.py "shards/*" --vocab vocab.txt --preset original
    KERAS_BACKEND=jax python benchmarks/gpu.py ... --preset small --batch-size 128 1024

Trains repeatedly on one batch, so that the data pipeline does not limit the GPU: windows of 20
words, 8,192 negatives, dropout 0.1, Adagrad, random weights. The vocabulary is padded to the
793,471 words of the original model, since the time of a step depends on its size. Prints the
median over groups of ten steps, and the FLOP/s of the LSTMs and the softmax. Then embeds sentences
to the mean of the layers, without a word cache and with all words cached, and prints the faster of
two passes. data_pipeline.py --numpy measures the data pipeline.
"""

import argparse
import itertools
import statistics
import time

import jax
import keras
from training_step import UNROLL_STEPS, model_and_batches

from keras_elmo import ElmoLayer, Embedder, Vocabulary
from keras_elmo.text.reader import read_sentences
from keras_elmo.training.settings import PRESETS

VOCABULARY, NEGATIVES = 793_471, 8_192
GROUP, GROUPS = 10, 4


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="pattern of the text shards, in quotes")
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--preset", default="original")
    parser.add_argument("--dtype", default="mixed_bfloat16")
    parser.add_argument("--batch-size", type=int, nargs="*", default=[128, 512])
    parser.add_argument("--batch-tokens", type=int, nargs="*", default=[2_048, 16_384])
    parser.add_argument("--sentences", type=int, default=4_000, help="sentences to embed")
    arguments = parser.parse_args()
    if keras.backend.backend() != "jax":
        raise SystemExit("Set KERAS_BACKEND=jax.")
    config = PRESETS[arguments.preset]
    words = Vocabulary.from_file(arguments.vocab).words[:VOCABULARY]
    fillers = (f"<filler{i}>" for i in range(VOCABULARY - len(words)))
    vocabulary = Vocabulary([*words, *fillers])
    print(f"{arguments.preset}, {arguments.dtype}, {jax.devices()[0].device_kind}")
    for batch_size in arguments.batch_size:
        speed = training_speed(config, vocabulary, batch_size, arguments)
        work = speed * work_of_a_token(config) / 1e12
        print(f"training, {batch_size} rows: {speed:,.0f} tokens/s, {work:.1f} TFLOP/s", flush=True)
    for batch_tokens in arguments.batch_tokens:
        speeds = embedding_speeds(config, batch_tokens, arguments)
        print(f"embedding, {batch_tokens} tokens: {speeds} tokens/s", flush=True)


class GroupTimes(keras.callbacks.Callback):
    """The seconds of each group of steps; reading the loss waits for the device."""

    def __init__(self):
        super().__init__()
        self.seconds, self._start = [], None

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % GROUP == 0:
            float(logs["loss"])
            now = time.perf_counter()
            if self._start is not None:
                self.seconds.append(now - self._start)
            self._start = now


def training_speed(config, vocabulary, batch_size, arguments):
    model, batches = model_and_batches(arguments, config, vocabulary, batch_size, NEGATIVES, seed=0)
    batch = next(batches)
    data = ((batch,) for _ in itertools.repeat(None))
    times = GroupTimes()
    model.fit(data, steps_per_epoch=GROUP * GROUPS, shuffle=False, callbacks=[times], verbose=0)
    return GROUP * batch_size * UNROLL_STEPS / statistics.median(times.seconds)


def work_of_a_token(config):
    """Floating-point operations of training on a token: forward, and twice that for gradients.

    Products with the weights of the LSTMs and of the negatives. The character encoder, which runs
    once for each distinct word, is left out.
    """
    gates = 4 * config.lstm_dim * 2 * config.projection_dim
    lstm = gates + config.lstm_dim * config.projection_dim
    products = config.num_layers * lstm + NEGATIVES * config.projection_dim
    return 2 * 3 * config.num_directions * products


def embedding_speeds(config, batch_tokens, arguments):
    """tokens/s without a word cache and with all words cached, after compilation; as text."""
    layer = ElmoLayer(None, config=config, dtype=arguments.dtype)
    sentences = list(itertools.islice(read_sentences(arguments.files), arguments.sentences))
    num_tokens = sum(map(len, sentences))
    speeds = []
    for word_cache in (0, 1_000_000):
        embedder = Embedder(layer, batch_tokens=batch_tokens, word_cache=word_cache, progress=False)
        seconds = []
        for _ in range(3):  # the first pass compiles
            start = time.perf_counter()
            embedder.embed(sentences, vectors="average")
            seconds.append(time.perf_counter() - start)
        speeds.append(num_tokens / min(seconds[1:]))
    return f"{speeds[0]:,.0f} without a word cache, {speeds[1]:,.0f} with all words cached"


if __name__ == "__main__":
    main()
