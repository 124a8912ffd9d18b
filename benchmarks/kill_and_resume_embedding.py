"""Kills an embedding job at random moments, resumes it, and compares it with an undisturbed one.

    python benchmarks/kill_and_resume_embedding.py text.txt --kills 20
    python benchmarks/kill_and_resume_embedding.py "shards/*" --kills 20 --ray --actors 2

Prints the number of compared rows. Exits with 1 if a row is missing, duplicated, or differs in a
bit.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np

from keras_elmo.embedding.writers import stored_lines

SMALL_PARTS = """
import sys
from keras_elmo import cli
from keras_elmo.embedding import writers

writers._PART_BYTES = int(sys.argv[1])
sys.exit(cli.main(sys.argv[2:]))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", help="a text file; with --ray a pattern, in quotes")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--actors", default="2")
    parser.add_argument("--model", default="default")
    parser.add_argument("--suffix", default=".h5", help="of the output (default: %(default)s)")
    parser.add_argument(
        "--batch-tokens", default="256", help="few, so that most kills interrupt a started output"
    )
    parser.add_argument(
        "--part-bytes",
        type=int,
        default=2**20,
        help="size of a part: small, so that there are many (default: %(default)s)",
    )
    arguments = parser.parse_args()
    moments = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        names = [Path(folder) / name for name in ("whole", "killed")]
        whole, killed = (
            names if arguments.ray else [name.with_suffix(arguments.suffix) for name in names]
        )
        seconds = run(arguments, whole)
        print(f"undisturbed: {seconds:.0f} s", flush=True)
        kills = 0
        while kills < arguments.kills:
            if run(arguments, killed, moments.uniform(0.2, 1) * seconds) is None:
                kills += 1
                print(f"kill {kills}: {lines_done(killed):,} lines", flush=True)
            else:
                check(whole, killed)
                shutil.rmtree(killed) if killed.is_dir() else killed.unlink()
        run(arguments, killed)
        check(whole, killed)


def run(arguments, output, kill_after=None):
    """Seconds that the job took, or `None` if it was killed."""
    command = [sys.executable, "-c", SMALL_PARTS, str(arguments.part_bytes)]
    command += ["embed", "--input", arguments.files]
    command += ["--output", str(output), "--model", arguments.model]
    command += ["--batch-tokens", arguments.batch_tokens]
    command += ["--ray", "--actors", arguments.actors] if arguments.ray else ["--resume"]
    start = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, error = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            for pid in [process.pid, *descendants(process.pid)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return None
    if process.returncode:
        raise SystemExit(f"the job failed:\n{error.decode()[-3000:]}")
    return time.monotonic() - start


def descendants(pid):
    """The children of a process and their descendants: Ray starts many."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            child = int(path.parent.name)
            found += [child, *descendants(child)]
    return found


def lines_done(path):
    """Lines of one file, or of a folder of shards, that a resumed job does not embed again."""
    if path.suffix:
        return stored_lines(path)
    names = {child.name.removesuffix(".parts").removeprefix(".") for child in path.glob("*")}
    return sum(stored_lines(path / name) for name in names if name.endswith(".parquet"))


def rows(path):
    """Vectors by file and line."""
    if path.suffix == ".h5":
        with h5py.File(path) as file:
            return {name: file[name][()] for name in file}
    import pyarrow.parquet as parquet

    found = {}
    for part in sorted(path.rglob("part-*.parquet")):
        table = parquet.read_table(part)
        for row in table.to_pylist():
            key = (part.parent.name if not path.suffix else "", row["line"])
            if key in found:
                raise SystemExit(f"{key} occurs twice")
            found[key] = np.array(row["vectors"], "float32")
    return found


def check(whole, killed):
    expected, found = rows(whole), rows(killed)
    if list(expected) != list(found):
        raise SystemExit(f"{len(found)} rows instead of {len(expected)}, or in a different order")
    for key, array in expected.items():
        if not np.array_equal(array, found[key]):
            raise SystemExit(f"row {key} differs")
    print(f"{len(found):,} rows are equal", flush=True)


if __name__ == "__main__":
    main()
