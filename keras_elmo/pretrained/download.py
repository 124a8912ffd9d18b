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
from keras_elmo.pretrained.archive import is_archive, unpack
from keras_elmo.pretrained.folder import find_model, is_of_many_languages
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
            raise FileNotFoundError(f"The {kind} file {path} does not exist.")
    return pair


def download(model: PretrainedModel) -> None:
    """Downloads a model, unless its files are there. Each file appears complete and checked.

    Raises ConnectionError if no address has them.
    """
    folder, first = _folder_of(model), model.locations[0]
    if model.is_archive:
        if not folder.is_dir():
            remedy = f"fetch {first} elsewhere and unpack it into {folder}, or pass its path"
            _fetch(model, "the archive", _locations(model), folder, _install_archive, remedy)
        return
    files = model.options_file, model.weights_file
    remedy = f"fetch {first}/{files[0]} and {first}/{files[1]} elsewhere and put both into {folder}"
    for name, install in zip(files, (_install_options, _install_weights)):
        if not (folder / name).is_file():
            addresses = [f"{location}/{name}" for location in _locations(model)]
            _fetch(model, name, addresses, folder / name, install, remedy)


def _install_options(path, target):
    ElmoConfig.from_json(path)
    os.replace(path, target)


def _install_weights(path, target):
    _check_hdf5(path)
    os.replace(path, target)


def _install_archive(path, target):
    if not is_archive(path):
        raise ValueError("it is not a complete zip or tar.gz file")
    folder = path.with_name("unpacked")
    folder.mkdir()
    unpack(path, folder)
    options, weights = find_model(folder)
    if not is_of_many_languages(weights):
        ElmoConfig.from_json(options)
        _check_hdf5(weights)
    try:
        os.rename(folder, target)
    except OSError:
        if not target.is_dir():  # else a different process was faster
            raise


def _check_hdf5(path):
    from keras_elmo.pretrained.hdf5 import open_arrays  # imports NumPy, which `info` does without

    with open_arrays(path):
        pass  # raises ValueError: a server may answer with a page of text


def _fetch(model, name, addresses, target, install, remedy):
    """Downloads a file from one address after another, until `install` accepts it."""
    import pooch

    pooch.get_logger().setLevel("WARNING")  # it would print each address
    is_checked = name != model.options_file  # the known size and hash are of the other file
    sha256 = f"sha256:{model.weights_sha256}" if is_checked and model.weights_sha256 else None
    problems = []
    target.parent.mkdir(parents=True, exist_ok=True)
    for address in addresses:
        try:
            with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as partial:
                cache = pooch.Pooch(partial, "", registry={"file": sha256}, urls={"file": address})
                path = Path(cache.fetch("file", downloader=_transfer))
                size, expected = path.stat().st_size, model.weights_bytes
                if is_checked and expected not in (None, size):
                    raise ValueError(f"expected {expected:,} bytes, got {size:,}")
                install(path, target)
            return
        except (OSError, http.client.HTTPException, ValueError) as error:
            problems.append(f"{address}: {error or type(error).__name__}")
    mirror = f", or set {MIRROR_VARIABLE} to a mirror's address" if _published_at(model) else ""
    raise ConnectionError(
        f"Could not download {name} of the model {model.name!r}: {'; '.join(problems)}. Without a "
        f"network, {remedy}{mirror}."
    )


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not from an encrypted connection to an unencrypted one."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if req.type == "https" and not newurl.lower().startswith("https:"):
            raise urllib.error.URLError(f"it redirects from https to {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _transfer(address, path, _):
    """A downloader of pooch, whose own waits for ever for a server that sends single bytes."""
    opener, num_bytes, start = urllib.request.build_opener(_SafeRedirects), 0, time.monotonic()
    with opener.open(address, timeout=TIMEOUT_SECONDS) as response, open(path, "wb") as file:
        expected = int(response.headers.get("Content-Length", 0))
        with progress_bar("downloading", expected or None, unit="bytes") as bar:
            while block := response.read1(1 << 18):
                file.write(block)
                bar.update(len(block))
                num_bytes += len(block)
                seconds = time.monotonic() - start
                if seconds > SLOW_SECONDS and num_bytes < _LEAST_RATE * seconds:
                    raise TimeoutError(f"it sent only {num_bytes:,} bytes in {seconds:.0f} seconds")
                if num_bytes > _MOST_BYTES:
                    raise ValueError(f"expected at most {_MOST_BYTES:,} bytes, got more")
    if expected not in (0, num_bytes):
        raise ValueError(f"expected {expected:,} bytes, got {num_bytes:,}")


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
