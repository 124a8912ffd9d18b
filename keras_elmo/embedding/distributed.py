"""Text shards to Parquet files of vectors, on a Ray cluster or on one machine."""

import collections
import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Iterable

from keras_elmo.embedding.file_job import EmbeddedFile
from keras_elmo.embedding.writers import check_vectors_output
from keras_elmo.pretrained.locate import ModelSource
from keras_elmo.pretrained.registry import known_model
from keras_elmo.progress import progress_bar
from keras_elmo.startup import import_keras
from keras_elmo.text.reader import READING_OPTIONS, check_text, find_files, unit_of

_MAX_RETRIES = 5  # of a shard whose actor has died


@dataclasses.dataclass
class EmbeddedShards(EmbeddedFile):
    """The report of `embed_shards`: the sums of all shards. Reasons begin with the shard."""

    shards: int = 0  # in the output, including earlier jobs
    skipped: int = 0  # that were complete already


def embed_shards(
    files: str | os.PathLike | Iterable[str | os.PathLike],
    output: str | os.PathLike,
    *,
    model: ModelSource = "default",
    address: str | None = None,
    num_actors: int | None = None,
    cores_an_actor: int = 2,
    embedder: dict | None = None,
    **file_arguments,
) -> EmbeddedShards:
    """Embeds text shards on a Ray cluster, to a Parquet folder for each.

    Each actor holds one model and embeds one shard at a time. If it dies, it is restarted and
    resumes its shard, up to five times. The same call resumes a job that was killed, and skips
    shards that are complete and of this text, model and settings.

    Args:
        files: The shards: a path, a glob pattern, or a list of either. They and `output` must be on
            a file system that all machines see under the same names.
        output: The folder, for `<name of the shard>.parquet`, each a folder of Parquet files.
        model: A path or name, as for `Embedder`.
        address: The cluster's, as for `ray.init`; `None` for this machine, or the cluster that this
            program runs on or is connected to.
        num_actors: Processes; `None` for as many as the cluster has cores for.
        cores_an_actor: Cores, and threads, of each.
        embedder: Further arguments of `Embedder`.
        **file_arguments: `vectors`, `pooling`, `tokenize`, `boundaries`, `field`, `keep_fields`,
            `format`, `max_line_tokens`, `dtype` and `compression` as for `Embedder.embed_file`.

    Returns:
        An `EmbeddedShards`: the sums of all shards.

    Raises:
        FileExistsError: if the output of a shard is a folder with other files.
        FileNotFoundError: if no shard matches.
        ImportError: if Ray or pyarrow is not installed.
        RuntimeError: if embedding a shard failed, for example because the disk is full.
        ValueError: if two shards have the same name, a text is damaged, or an existing output was
            created from a different text, with a different model or different settings.

    Example:

    >>> embed_shards("shards/*.gz", "vectors", num_actors=2, vectors="top")
    """
    if not {"resume", "overwrite"}.isdisjoint(file_arguments):
        raise ValueError(
            "embed_shards always resumes: leave out resume and overwrite. To start again, remove "
            "the folder, or choose a different one."
        )
    ray = _ray()
    shards = _shards(files, output)
    reading = {name: value for name, value in file_arguments.items() if name in READING_OPTIONS}
    for path in shards.values():
        check_text(path, **reading)
    os.makedirs(output, exist_ok=True)
    for shard_output, source in shards.items():
        compression = file_arguments.get("compression")
        check_vectors_output(shard_output, [source], compression=compression, resume=True)
    unit, *others = {unit_of(path, **reading) for path in shards.values()}
    report = EmbeddedShards(unit="record" if others else unit, shards=len(shards))
    start = time.monotonic()
    # The actors have other working directories.
    model = tuple(map(_absolute, model)) if isinstance(model, (tuple, list)) else _absolute(model)
    embedder = dict(embedder or {})
    if "vocabulary" in embedder:
        embedder["vocabulary"] = _absolute(embedder["vocabulary"])
    arguments = model, embedder, file_arguments
    with contextlib.ExitStack() as stack:
        if not ray.is_initialized():
            quiet = {} if address else {"include_dashboard": False}
            ray.init(address=address, logging_level="ERROR", **quiet)
            stack.callback(ray.shutdown)
        actors = _start_actors(ray, arguments, num_actors, cores_an_actor, len(shards))
        for actor in actors:
            stack.callback(ray.kill, actor)
        bar = stack.enter_context(progress_bar("embedding", len(shards), unit="shards"))
        for source, result in _results(ray, shards, actors):
            if isinstance(result, Exception):
                raise result
            report.merge(os.path.basename(source), result)
            report.skipped += result.was_complete
            bar.update()
    report.was_complete = report.skipped == report.shards
    report.seconds = time.monotonic() - start
    return report


def _absolute(value):
    """The absolute path of a file or folder; other values, and names of models, unchanged."""
    is_path = isinstance(value, (str, os.PathLike)) and os.path.exists(value)
    return os.path.abspath(value) if is_path and known_model(value) is None else value


def _start_actors(ray, arguments, num_actors, cores_an_actor, num_shards):
    cores = int(ray.cluster_resources().get("CPU", 1))
    num_actors = min(num_actors or max(1, cores // cores_an_actor), num_shards)
    share = min(cores_an_actor, cores / num_actors)
    actor = ray.remote(_Actor).options(
        num_cpus=share,
        max_restarts=-1,
        max_task_retries=_MAX_RETRIES,
        runtime_env={"env_vars": _environment(max(1, int(share)))},
    )
    return [actor.remote(*arguments) for _ in range(num_actors)]


def _results(ray, shards, actors):
    """Embeds the shards, and yields each with what an actor returned for it."""
    waiting = list(shards.items())[::-1]
    # An actor gets a shard once it has started: on a busy cluster that may take long.
    working = {actor.start.remote(): (actor, None) for actor in actors}
    num_left = len(waiting)
    try:
        while num_left:
            (done,), _ = ray.wait(list(working), num_returns=1)
            (actor, shard), result = working.pop(done), ray.get(done)
            if waiting:
                output, source = waiting.pop()
                working[actor.embed.remote(output, source)] = actor, source
            if shard is not None:
                num_left -= 1
                yield shard, result
    except ray.exceptions.RayError as error:
        raise RuntimeError(
            f"Ray could not finish the job ({type(error).__name__}). The same call resumes it; the "
            "cause is in Ray's logs and above this error."
        ) from error


class _Actor:
    """A process with one model, which embeds a shard at each call."""

    def __init__(self, model, embedder_options, file_arguments):
        self._model = model
        self._embedder_options = embedder_options
        self._file_arguments = file_arguments

    def start(self):
        """Returns when the process runs."""

    @functools.cached_property
    def _embedder(self):
        import_keras()
        from keras_elmo.embedding.embedder import Embedder

        # Not in the constructor, where Ray would retry after an error such as a missing model.
        return Embedder(self._model, **{"progress": False, **self._embedder_options})

    def embed(self, output, source):
        """Embeds a shard, and returns the report, or an error."""
        try:
            return self._embedder.embed_file(source, output, resume=True, **self._file_arguments)
        except Exception as error:  # raised, Ray would show it inside the traceback of a worker
            for kind in (FileExistsError, ValueError):
                if isinstance(error, kind):
                    return kind(str(error))
            return RuntimeError(
                f"Embedding {source} failed with {type(error).__name__}: {error} (The same call "
                "resumes the job.)"
            )


def _shards(files, folder):
    """The shards, by the Parquet folders to write."""
    paths = [os.path.abspath(path) for path in find_files(files)]
    names = collections.Counter(map(os.path.basename, paths))
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        raise ValueError(
            f"Several shards are named {twice[0]}, and would be written to the same output. Embed "
            "one folder at a time."
        )
    folder = os.path.abspath(folder)
    return {os.path.join(folder, os.path.basename(path) + ".parquet"): path for path in paths}


def _ray():
    try:
        import pyarrow  # noqa: F401 (needed for the output)
        import ray
    except ImportError:
        raise ImportError("A cluster needs Ray: pip install 'keras-elmo[ray]'") from None
    return ray


def _environment(num_threads):
    """Variables of an actor's process: as many threads as it has cores, and this backend."""
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    names = ("KERAS_BACKEND", "KERAS_HOME", "KERAS_ELMO_MIRROR", "TF_ENABLE_ONEDNN_OPTS")
    variables = {name: os.environ[name] for name in names if name in os.environ}
    return variables | dict.fromkeys(threads, str(num_threads))
