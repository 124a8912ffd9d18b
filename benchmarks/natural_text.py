"""Tokens/s of embedding natural text, by keras_elmo and its peers as their users call them.

    python benchmarks/natural_text.py heldout.txt --architecture original --tokens 9200 \
        --simple-elmo SIMPLE/bin/python --allennlp ALLENNLP/bin/python

embedding.py lists the contents of the environments. All read the same random weights and the same
sentences, keras_elmo all of them in one call, its peers in batches of 32: AllenNLP sorted by
length, simple-elmo in the order of the text. keras_elmo encodes each distinct word of a call once,
its peers each occurrence; nothing is cached between calls. Prints the median of the rounds, the
largest, and the median of the ratios to the fastest peer of each round.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from embedding import ARCHITECTURES, LABELS, Worker, write_model
from keras_elmo.text.reader import read_sentences

OURS = ("ours_natural", "ours_natural_bfloat16")
BATCH = 32  # of the peers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="text with one sentence per line")
    parser.add_argument("--architecture", default="original", choices=ARCHITECTURES)
    parser.add_argument("--tokens", type=int, default=9200, help="number of tokens to embed")
    parser.add_argument("--simple-elmo", metavar="PYTHON")
    parser.add_argument("--allennlp", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    peers = {"simple_elmo": arguments.simple_elmo, "allennlp": arguments.allennlp}
    pythons = dict.fromkeys(OURS, sys.executable) | {k: v for k, v in peers.items() if v}
    sentences = first_sentences(arguments.file, arguments.tokens)
    num_tokens = sum(map(len, sentences))
    speeds = {name: [] for name in pythons}
    with tempfile.TemporaryDirectory() as folder:
        model, text, by_length = (Path(folder) / name for name in ("model", "text", "by_length"))
        write_model(arguments.architecture, model)
        for path, order in ((text, sentences), (by_length, sorted(sentences, key=len))):
            path.write_bytes(b"".join(b" ".join(tokens) + b"\n" for tokens in order))
        workers = {
            name: Worker(python, name, model, by_length if name == "allennlp" else text)
            for name, python in pythons.items()
        }
        for number in range(arguments.rounds + 1):  # the first round is a warm-up
            for name, worker in workers.items():
                batch = len(sentences) if name in OURS else BATCH
                seconds, _ = worker.run(batch, len(sentences))
                if number:
                    speeds[name].append(num_tokens / seconds)
                    print(f"{name}: {speeds[name][-1]:,.0f}", flush=True)
        for worker in workers.values():
            worker.close()
    print(f"{arguments.architecture}, {num_tokens:,} tokens")
    fastest = [max(x) for x in zip(*(speeds[name] for name in pythons if name not in OURS))]
    for name, values in speeds.items():
        line = f"{LABELS[name]}: {statistics.median(values):,.0f}, at most {max(values):,.0f}"
        if fastest and name in OURS:
            line += f", {statistics.median(x / y for x, y in zip(values, fastest)):.2f} x"
        print(line)


def first_sentences(path, num_tokens):
    """The first sentences with at least `num_tokens` tokens, in full batches."""
    sentences = []
    for tokens in read_sentences(path):
        sentences.append(tokens)
        num_tokens -= len(tokens)
        if num_tokens <= 0 and len(sentences) % BATCH == 0:
            return sentences
    raise SystemExit(f"{path} has too few sentences")


if __name__ == "__main__":
    main()
