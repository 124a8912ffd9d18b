"""Downloading the models that are known by name."""

import hashlib
import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path, PurePosixPath

from keras_elmo.files import atomic_folder
from keras_elmo.pretrained.archive import unpack
from keras_elmo.pretrained.folder import find_model
from keras_elmo.pretrained.formats import format_of
from keras_elmo.pretrained.registry import CATALOG, PretrainedModel, published_base, urls_of
from keras_elmo.progress import progress_bar

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"  # environment variable: a base URL to try first
TIMEOUT_SECONDS = 30  # how long a server may send nothing

# Errors of the network or of the content that a server sent: another server may do better.
_SERVER_ERRORS = (
    *(urllib.error.URLError, http.client.HTTPException, ssl.SSLError),
    *(ConnectionError, TimeoutError, FileNotFoundError, ValueError),
)


def download_folder(model: PretrainedModel) -> Path:
    """The folder of a model that has been downloaded, whether it exists or not."""
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    name = model.name
    if name not in CATALOG:
        # A different process may use the name for a different model.
        name += "-" + hashlib.sha256(model.files[0].encode()).hexdigest()[:8]
    return Path(home).expanduser() / "keras_elmo" / name


def download(model: PretrainedModel) -> Path:
    """Downloads a model, unless its folder exists, and returns that folder.

    The folder appears only once complete and verified. Raises ConnectionError if no server has the
    model.
    """
    folder, problems = download_folder(model), []
    if folder.is_dir():
        return folder
    for urls in _mirrored(model):
        try:
            with atomic_folder(folder) as partial:
                _install(model, urls, Path(partial))
            return folder
        except _SERVER_ERRORS as error:
            problems.append(f"{urls[0]}: {error or type(error).__name__}")
        except FileExistsError:
            if not folder.is_dir():
                raise
            return folder  # another process finished first
    raise ConnectionError("\n".join(_without_network(model, folder, problems)))


def _without_network(model, folder, problems):
    """The lines of the error message: what failed, and what to do."""
    yield f"Could not download the model {model.name!r}:"
    yield from (f"  {problem}" for problem in problems)
    files = (model.archive,) if model.archive else model.files
    yield "Without a network, fetch on another machine:"
    yield from (f"  {url}" for url in files)
    put = "Unpack it into" if len(files) == 1 else "Put both into"
    yield f"{put} {folder}{', or pass its path.' if len(files) == 1 else '.'}"
    if published_base(model):
        yield f"Or set {MIRROR_VARIABLE} to a mirror's base URL."
    yield f"See {model.guide}."


def _mirrored(model):
    """The URLs of a model's files: at the mirror of the environment, then those it has."""
    mirror, base = os.environ.get(MIRROR_VARIABLE, "").rstrip("/"), published_base(model)
    if not mirror or base is None:
        return urls_of(model)
    return [tuple(mirror + url.removeprefix(base) for url in model.files), *urls_of(model)]


def _install(model, urls, folder):
    """Downloads, unpacks and checks the files of a model."""
    *others, last = urls
    for url in others:
        _fetch(url, folder / _name(url))
    path = folder / _name(last)
    _fetch(last, path, model.weights_bytes, model.weights_sha256)
    if not others:
        unpack(path, folder, last)
        path.unlink()
    options, weights, *_ = find_model(folder)
    format_of(weights).read_architecture(options)
    with format_of(weights).open(weights):
        pass  # raises ValueError: a server may answer with a page of text


def _name(url):
    return PurePosixPath(urllib.parse.urlsplit(url).path).name


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from an encrypted connection to an unencrypted one."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.URLError(f"it redirects from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(url, path, num_bytes=None, sha256=None):
    """Downloads a file. Raises ValueError if it does not have the known size or hash."""
    received, digest = 0, hashlib.sha256()
    opener = urllib.request.build_opener(_SafeRedirects)
    with opener.open(url, timeout=TIMEOUT_SECONDS) as response, open(path, "wb") as file:
        announced = response.headers.get("Content-Length")
        expected = num_bytes or (int(announced) if announced else None)
        with progress_bar("downloading", expected, unit="bytes") as bar:
            while block := response.read1(1 << 18):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
                received += len(block)
    if expected not in (None, received):
        raise ValueError(f"expected {expected:,} bytes, got {received:,}")
    if sha256 and sha256.lower() != digest.hexdigest():
        raise ValueError(f"expected the sha256 {sha256}, got {digest.hexdigest()}")
