"""Downloading the models that are known by name."""

import hashlib
import http.client
import os
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from keras_elmo.config import ElmoConfig
from keras_elmo.pretrained.archive import unpack
from keras_elmo.pretrained.folder import find_model, is_elmo_for_many_langs
from keras_elmo.pretrained.registry import CATALOG, PUBLISHED, PretrainedModel
from keras_elmo.progress import progress_bar

MIRROR_VARIABLE = "KERAS_ELMO_MIRROR"  # environment variable: an address to try first
TIMEOUT_SECONDS = 30  # how long a server may send nothing
SLOW_SECONDS = 10  # how long it may send less than _LEAST_RATE
_LEAST_RATE = 1000  # bytes per second
_MOST_BYTES = 1 << 32  # more than twice the largest known archive


def files_of(model: PretrainedModel) -> tuple[Path, Path]:
    """The options and weights of a known model in its folder.

    Raises FileNotFoundError if they are not there.
    """
    folder = _folder_of(model)
    if model.is_archive:
        return find_model(folder)
    pair = folder / model.options_file, folder / model.weights_file
    for path, kind in zip(pair, ("options", "weights")):
        if not path.is_file():
            raise FileNotFoundError(
                f"The {kind} file {path} does not exist: put it there, or delete a downloaded "
                "folder to download it again."
            )
    return pair


def download(model: PretrainedModel) -> None:
    """Downloads a model, unless its folder is there. That appears complete and checked.

    Raises ConnectionError if no address has the model.
    """
    folder, problems = _folder_of(model), []
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    for address in _locations(model):
        try:
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as partial:
                _install(model, address, Path(partial), folder)
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            problems.append(f"{address}: {error or type(error).__name__}")
    first = model.locations[0]
    remedy = f"fetch {first} elsewhere and unpack it into {folder}, or pass its path"
    if not model.is_archive:
        files = f"{first}/{model.options_file} and {first}/{model.weights_file}"
        remedy = f"fetch {files} elsewhere and put both into {folder}"
    mirror = f", or set {MIRROR_VARIABLE} to a mirror's address" if _published_at(model) else ""
    raise ConnectionError(
        f"Could not download the model {model.name!r}: {'; '.join(problems)}. Without a network, "
        f"{remedy}{mirror}."
    )


def _install(model, address, partial, target):
    """Downloads, checks and unpacks the files of a model, and moves them to their folder."""
    folder = partial / "model"
    folder.mkdir()
    if model.is_archive:
        _fetch(address, partial / "archive", model.weights_bytes, model.weights_sha256)
        unpack(partial / "archive", folder)
        options, weights = find_model(folder)
    else:
        options, weights = folder / model.options_file, folder / model.weights_file
        _fetch(f"{address}/{options.name}", options)
        _fetch(f"{address}/{weights.name}", weights, model.weights_bytes, model.weights_sha256)
    if not is_elmo_for_many_langs(weights):
        from keras_elmo.pretrained.hdf5 import open_arrays  # imports NumPy, slow for `info`

        ElmoConfig.from_json(options)
        with open_arrays(weights):
            pass  # raises ValueError: a server may answer with a page of text
    try:
        os.rename(folder, target)
    except OSError:
        if not target.is_dir():  # else a different process was faster
            raise


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from an encrypted connection to an unencrypted one."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.URLError(f"it redirects from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _fetch(address, path, num_bytes=None, sha256=None):
    """Downloads a file. Raises ValueError if it does not have the known size or hash."""
    received, digest, start = 0, hashlib.sha256(), time.monotonic()
    opener = urllib.request.build_opener(_SafeRedirects)
    with opener.open(address, timeout=TIMEOUT_SECONDS) as response, open(path, "wb") as file:
        announced = response.headers.get("Content-Length")
        expected = num_bytes or (int(announced) if announced else None)
        most = min(expected or _MOST_BYTES, _MOST_BYTES)
        with progress_bar("downloading", expected, unit="bytes") as bar:
            while block := response.read1(1 << 18):
                file.write(block)
                digest.update(block)
                bar.update(len(block))
                received += len(block)
                seconds = time.monotonic() - start
                if seconds > SLOW_SECONDS and received < _LEAST_RATE * seconds:
                    raise TimeoutError(f"it sent only {received:,} bytes in {seconds:.0f} seconds")
                if received > most:
                    raise ValueError(f"expected at most {most:,} bytes, got more")
    if expected not in (None, received):
        raise ValueError(f"expected {expected:,} bytes, got {received:,}")
    if sha256 and sha256.lower() != digest.hexdigest():
        raise ValueError(f"expected the sha256 {sha256}, got {digest.hexdigest()}")


def _folder_of(model):
    """The location of a model, now or once downloaded."""
    if model.local_path is not None:
        return model.local_path
    home = os.environ.get("KERAS_HOME") or os.path.join("~", ".keras")
    name = model.name
    if name not in CATALOG:
        # A different process may use the name for a different model.
        name += "-" + hashlib.sha256(model.locations[0].encode()).hexdigest()[:8]
    return Path(home).expanduser() / "keras_elmo" / name


def _published_at(model):
    """The base of a published model's address, which a mirror replaces; `None` for others."""
    address = model.locations[0]
    return next((base for base in PUBLISHED if address.startswith(f"{base}/")), None)


def _locations(model):
    mirror, base = os.environ.get(MIRROR_VARIABLE, "").rstrip("/"), _published_at(model)
    if not mirror or base is None:
        return model.locations
    return (mirror + model.locations[0].removeprefix(base), *model.locations)
