"""Text shards to Parquet files of vectors, on a Ray cluster or on one machine."""

import collections
import contextlib
import dataclasses
import os

from keras_elmo.embedding.file_job import MAX_REASONS, EmbeddedFile
from keras_elmo.embedding.writers import stored_state
from keras_elmo.text.reader import find_files

_CORES_AN_ACTOR = 2


@dataclasses.dataclass
class EmbeddedShards:
    """What became of text shards.

    Args:
        shards: Shards in the output, those that were there already too.
        skipped: Shards that were there already, whole.
        lines: Lines in the output.
        tokens: Tokens embedded by this job.
        failed: Lines that could not be read; they have an array without tokens.
        reasons: Of some of those, `(shard, line number from 0 on, reason)`.
    """

    shards: int = 0
    skipped: int = 0
    lines: int = 0
    tokens: int = 0
    failed: int = 0
    reasons: list = dataclasses.field(default_factory=list)


def embed_shards(
    files,
    folder,
    *,
    model="default",
    address=None,
    num_actors=None,
    cores_an_actor=_CORES_AN_ACTOR,
    embedder=None,
    **file_arguments,
):
    """Embeds text shards on a Ray cluster, to a Parquet file for each.

    Ray Data hands the shards to a pool of actors, each of which holds one model and embeds a shard
    at a time, in a stream. Where an actor dies, another goes on with its shard after the last part
    that was written. The same call goes on with a job that was killed: of shards that are complete
    the actors only check that they are of this text, model and settings.

    Args:
        files: The shards: a path, a pattern, or a list of such, as for `Embedder.embed_file`. They
            and `folder` must be on a file system that all machines see under the same names.
        folder: Where to write `<name of the shard>.parquet`, each a folder of Parquet files.
        model: As for `ElmoLayer`, but a name or path: each actor loads it.
        address: Of the cluster, as for `ray.init`; `None` for this machine, or the cluster that
            this program is connected to or runs on.
        num_actors: Processes; `None` for as many as the cluster has cores for.
        cores_an_actor: Cores, and threads, of each.
        embedder: Dict of more arguments of `Embedder`.
        **file_arguments: `output`, `pooling`, `field`, `max_line_tokens`, `dtype` and `compression`
            as for `Embedder.embed_file`.

    Returns:
        An `EmbeddedShards`.

    Raises:
        FileNotFoundError: if there is no such shard.
        ImportError: if Ray or pyarrow is not installed.
        ValueError: if two shards have the same name, a text is damaged, or a shard that is there
            was made from another text, by another model or with other settings.

    Example:

    >>> embed_shards("shards/*.gz", "vectors", num_actors=2, output="top")
    """
    ray = _ray()
    shards = _shards(files, folder)
    os.makedirs(folder, exist_ok=True)
    report = EmbeddedShards(shards=len(shards))
    with _connected(ray, address):
        _run(
            ray,
            shards,
            (model, embedder or {}, file_arguments),
            num_actors,
            cores_an_actor,
            report,
        )
    return report


def _run(ray, shards, constructor_arguments, num_actors, cores_an_actor, report):
    """Embeds the shards, and adds to the report."""
    cores = int(ray.cluster_resources().get("CPU", 1))
    num_actors = min(num_actors or max(1, cores // cores_an_actor), len(shards))
    share = min(cores_an_actor, cores / num_actors)
    rows = [{"source": source, "target": target} for target, source in shards.items()]
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
        _Actor,
        fn_constructor_args=constructor_arguments,
        batch_size=1,
        concurrency=num_actors,
        num_cpus=share,
        runtime_env={"env_vars": _environment(max(1, int(share)))},
    )
    for row in dataset.iter_rows():
        if row["refusal"]:
            raise ValueError(row["refusal"])
        report.skipped += row["skipped"]
        report.lines += row["lines"]
        report.tokens += row["tokens"]
        report.failed += row["failed"]
        name = os.path.basename(row["source"])
        reasons = zip(row["reason_lines"], row["reasons"])
        report.reasons += [(name, int(line), str(reason)) for line, reason in reasons]
    report.reasons = report.reasons[:MAX_REASONS]


@contextlib.contextmanager
def _connected(ray, address):
    """A connection to Ray: the one there is, or a new one, ended afterwards."""
    if ray.is_initialized():
        yield
        return
    quiet = {} if address else {"include_dashboard": False}
    ray.init(address=address, logging_level="ERROR", **quiet)
    try:
        yield
    finally:
        ray.shutdown()


class _Actor:
    """A process with one model, that embeds a shard at each call."""

    def __init__(self, model, embedder, file_arguments):
        from keras_elmo.embedding.embedder import Embedder

        self._embedder = Embedder(model, progress=False, **embedder)
        self._file_arguments = file_arguments

    def __call__(self, batch):
        source, target = str(batch["source"][0]), str(batch["target"][0])
        try:
            is_skipped, report = self._embed(source, target)
            refusal = ""
        except ValueError as error:
            # Ray would show it inside the traceback of a worker.
            is_skipped, report, refusal = False, EmbeddedFile(), str(error)
        return {
            "source": [source],
            "refusal": [refusal],
            "skipped": [is_skipped],
            "lines": [report.lines],
            "tokens": [report.tokens],
            "failed": [report.failed],
            "reason_lines": [[line for line, _ in report.reasons]],
            "reasons": [[reason for _, reason in report.reasons]],
        }

    def _embed(self, source, target):
        before = stored_state(target)
        report = self._embedder.embed_file(source, target, resume=True, **self._file_arguments)
        return before["complete"] and before["num_lines"] == report.lines, report


def _shards(files, folder):
    """The shards by the Parquet files to write."""
    paths = [os.path.abspath(path) for path in find_files(files)]
    names = collections.Counter(map(os.path.basename, paths))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(
            f"There is more than one shard named {twice[0]}: they would be written to the same "
            "file. Embed one folder at a time."
        )
    folder = os.path.abspath(folder)
    return {os.path.join(folder, os.path.basename(path) + ".parquet"): path for path in paths}


def _ray():
    try:
        import pyarrow  # noqa: F401 (what Ray Data and the output need)
        import ray
        import ray.data
    except ImportError:
        raise ImportError('Work on a cluster needs: pip install "ray[data]" pyarrow') from None
    return ray


def _environment(num_threads):
    """Variables of an actor's process: as many threads as it has cores, and our backend."""
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    names = ("KERAS_BACKEND", "KERAS_HOME", "KERAS_ELMO_MIRROR", "TF_CPP_MIN_LOG_LEVEL")
    passed_on = {name: os.environ[name] for name in names if name in os.environ}
    return {**passed_on, **dict.fromkeys(threads, str(num_threads))}
