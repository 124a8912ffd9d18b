"""How the speed of `Embedder` depends on the amount of text, sentence length and batch size.

    python benchmarks/scaling.py "heldout/*"

Embeds running text with the bundled model, words in the cache, and draws benchmarks/scaling.png
(needs matplotlib): seconds by number of sentences, and tokens/s by sentence length and by tokens
per batch. Points of one panel are measured in interleaved rounds; each shows the median.
"""

import argparse
import itertools
import statistics
import time
from pathlib import Path

from keras_elmo import Embedder
from keras_elmo.text.reader import find_files, read_sentences

COUNTS = (500, 1000, 2000, 4000)
LENGTHS = (5, 10, 20, 40, 80, 160)
BATCHES = (64, 256, 1024, 2048, 4096, 8192)
TOKENS = 20_000


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="pattern of the text shards, in quotes")
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", default=Path(__file__).parent / "scaling.png")
    arguments = parser.parse_args()

    sentences = [s for path in find_files(arguments.files) for s in read_sentences(path)]
    tokens = list(itertools.chain.from_iterable(sentences))
    if len(sentences) < max(COUNTS) or len(tokens) < TOKENS:
        raise SystemExit(
            f"{arguments.files}: fewer than {max(COUNTS)} sentences or {TOKENS} tokens"
        )
    embedder = Embedder(arguments.model, word_cache=1_000_000, progress=False)
    embedder.encode_words(tokens)

    def seconds(text, batch_tokens=2048):
        embedder.batch_tokens = batch_tokens
        start = time.perf_counter()
        for _ in embedder.stream(text, "average"):
            pass
        return time.perf_counter() - start

    def pieces(length):
        starts = range(0, TOKENS, length)
        return [tokens[start : start + length] for start in starts]

    cut = pieces(25)
    panels = {
        "sentences": {n: lambda n=n: seconds(sentences[:n]) for n in COUNTS},
        "tokens a sentence": {n: lambda n=n: TOKENS / seconds(pieces(n)) for n in LENGTHS},
        "tokens a batch": {n: lambda n=n: TOKENS / seconds(cut, n) for n in BATCHES},
    }
    results = {name: medians(points, arguments.rounds) for name, points in panels.items()}
    for name, points in results.items():
        print(name, {n: round(value, 2) for n, value in points.items()})
    draw(results, arguments.output)


def medians(points, rounds):
    values = {n: [] for n in points}
    for measure in points.values():
        measure()
    for _ in range(rounds):
        for n, measure in points.items():
            values[n].append(measure())
    return {n: statistics.median(found) for n, found in values.items()}


def draw(results, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(results), figsize=(11, 3.2), layout="constrained")
    for axis, (name, points) in zip(axes, results.items()):
        axis.plot(list(points), list(points.values()), marker="o")
        axis.set_xlabel(name)
        axis.set_ylabel("seconds" if name == "sentences" else "tokens/s")
        axis.set_ylim(bottom=0)
        if name != "sentences":
            axis.set_xscale("log", base=2)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
