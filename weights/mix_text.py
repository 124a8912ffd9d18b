"""Shuffles the sentences of several corpora over new shards, so that each shard mixes all corpora.

    python weights/mix_text.py "lm_books/train/*.xz" "lm_modern/train/*.xz" --output text

A `LanguageModelCorpus` shuffles the sentences inside a shard and the order of the shards, so
unmixed books and modern text would come in blocks. All sentences are shuffled in memory. Prints the
SHA-256 of each shard's text, because the bytes of an .xz file depend on the version of liblzma.
"""

import argparse
import hashlib
import lzma
import random
from pathlib import Path

from keras_elmo.files import atomic_folder
from keras_elmo.text.reader import find_files, open_text


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", help="patterns of text files, in quotes")
    parser.add_argument("--output", required=True, help="folder for the shards")
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(arguments)
    sentences = []
    for pattern in arguments.files:
        for path in find_files(pattern):
            with open_text(path) as (_, lines):
                sentences.extend(line.removesuffix(b"\n") + b"\n" for line in lines)
    random.Random(arguments.seed).shuffle(sentences)
    with atomic_folder(arguments.output) as folder:
        for i in range(arguments.shards):
            text = b"".join(sentences[i :: arguments.shards])
            name = f"mixed-{i:05d}-of-{arguments.shards:05d}.txt"
            # Reading is as fast as with a higher preset, and writing much faster.
            Path(folder, f"{name}.xz").write_bytes(lzma.compress(text, preset=1))
            print(f"{hashlib.sha256(text).hexdigest()}  {name}", flush=True)


if __name__ == "__main__":
    main()
