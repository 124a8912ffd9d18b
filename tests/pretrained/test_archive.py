"""Finding the files of a model in folders, zip and tar.gz files."""

import gzip
import io
import json
import os
import shutil
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from helpers import TINY
from keras_elmo.pretrained import archive
from keras_elmo.pretrained.download import model_files

OPTIONS = (TINY / "options.json").read_bytes()
WEIGHTS = (TINY / "weights.hdf5").read_bytes()
MANY_LANGUAGES = Path(__file__).parents[1] / "golden" / "many_languages"

FAMILIES = {
    "NLPL": ("options.json", "model.hdf5", ["vocab.txt.gz", "meta.json", "README"]),
    "Schuster": ("options262.json", "es_weights.hdf5", ["es_best_mapping.pth"]),
    "EMBEDDIA": ("sl/options.json", "sl/slovenian-elmo-weights.hdf5", []),
    "German": ("options.json", "weights.hdf5", ["vocab-train.txt", "checkpoint", "x.ckpt.index"]),
    "AllenNLP": ("elmo_pt_options.json", "elmo_pt_weights.hdf5", []),
    "saved by keras_elmo": ("m/options.json", "m/weights.hdf5", ["m/vectors.hdf5", "m/vocab.txt"]),
}
PICKLED = {
    "README": b"of ELMoForManyLangs",
    "meta.json": b"{}",
    "config.json": b'{"config_path": "/home/someone/configs/small.json"}',
    "char.dic": b"a\t0\n",
    "word.dic": b"b\t0\n",
    "encoder.pkl": b"encoder",
    "token_embedder.pkl": b"embedder",
}


def packed(kind, path, files):
    """Writes files to a folder, zip or tar.gz file; returns its path."""
    if kind == "folder":
        for name, content in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
        return path
    path = path.with_name(f"{path.name}.{kind}")
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
            for name, content in files.items():
                target.writestr(name, content)
    else:
        with tarfile.open(path, "w:gz") as target:
            for name, content in files.items():
                add(target, name, content)
    return path


def add(target, name, content=b"", **header):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in header.items():
        setattr(info, field, value)
    target.addfile(info, io.BytesIO(content))


def content_of(model):
    """The content of a model's options and weights, and the names beside them."""
    with model_files(model) as (options, weights):
        assert options.parent == weights.parent
        return options.read_bytes(), weights.read_bytes(), sorted(os.listdir(options.parent))


every_kind = pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])


@every_kind
@pytest.mark.parametrize("family", FAMILIES)
def test_published_families_are_read(kind, family, tmp_path):
    options, weights, others = FAMILIES[family]
    files = {**dict.fromkeys(others, b"x"), weights: WEIGHTS, options: OPTIONS}
    path = packed(kind, tmp_path / "model", files)
    assert content_of(str(path))[:2] == (OPTIONS, WEIGHTS)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_dictionaries_and_softmax_beside_the_weights_are_unpacked_and_nothing_else(kind, tmp_path):
    beside = dict.fromkeys(("m/word.dic", "m/char.dic", "m/softmax.hdf5", "m/x.pkl"), b"x")
    files = {**beside, "m/options.json": OPTIONS, "m/weights.hdf5": WEIGHTS, "word.dic": b"other"}
    path = packed(kind, tmp_path / "model", files)
    with model_files(path) as (options, _):
        assert (options.parent / "word.dic").read_bytes() == b"x"
    names = ["char.dic", "options.json", "softmax.hdf5", "weights.hdf5", "word.dic"]
    assert content_of(path)[2] == names


@every_kind
@pytest.mark.parametrize("inside", ["", "it.model/"])
def test_elmo_for_many_langs_is_recognised(kind, inside, tmp_path):
    path = packed(kind, tmp_path / "it", {f"{inside}{n}": data for n, data in PICKLED.items()})
    config, encoder, names = content_of(path)
    assert (config, encoder) == (PICKLED["config.json"], b"encoder")
    unpacked = sorted(set(PICKLED) - {"README", "meta.json"})
    assert names == (sorted(PICKLED) if kind == "folder" else unpacked)


@pytest.mark.parametrize(
    "named, at, found",
    [
        ("/foreign/small.json", "small.json", True),
        ("configs/small.json", "configs/small.json", True),
        ("configs/small.json", "small.json", True),
        ("configs/small.json", "other/small.json", False),
        ("../small.json", "../small.json", True),
        ("configs/..", "configs/..", False),
        ("c/config.json", "c/config.json", False),
        ("c/encoder.pkl", "c/encoder.pkl", True),
        (3, "3", False),
    ],
)
def test_the_architecture_that_the_options_name_is_unpacked(named, at, found, tmp_path):
    options = json.dumps({"config_path": named}).encode()
    files = {**PICKLED, "config.json": options, at: b'{"architecture": 1}'}
    if at.endswith("pkl"):
        with pytest.raises(ValueError, match=r"must hold one model; found encoder.pkl, c/encoder"):
            content_of(packed("zip", tmp_path / "it", files))
        return
    with model_files(packed("zip", tmp_path / "it", files)) as (options_path, _):
        folder = options_path.parent
        assert options_path.read_bytes() == options
        names = {path.name for path in folder.iterdir() if path.read_bytes()[2:6] == b"arch"}
    assert names == ({"small.json"} if found else set())
    assert sorted(os.listdir(tmp_path)) == ["it.zip"]


@pytest.mark.parametrize("options", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff"])
def test_bad_options_are_left_to_their_reader(options, tmp_path):
    path = packed("zip", tmp_path / "it", {**PICKLED, "config.json": options})
    assert content_of(path)[0] == options


@every_kind
@pytest.mark.parametrize("missing", ["encoder.pkl", "token_embedder.pkl", "config.json"])
def test_missing_files_of_elmo_for_many_langs_are_named(kind, missing, tmp_path):
    files = {name: data for name, data in PICKLED.items() if name != missing}
    path = packed(kind, tmp_path / "it", files)
    with pytest.raises(
        FileNotFoundError, match=rf"ELMoForManyLangs without .*{missing}.*; found .*char\.dic"
    ):
        content_of(path)


def test_hdf5_with_options_decides(tmp_path):
    path = packed(
        "zip", tmp_path / "both", {**PICKLED, "model.hdf5": WEIGHTS, "x_options.json": OPTIONS}
    )
    assert content_of(path) == (
        OPTIONS,
        WEIGHTS,
        ["char.dic", "options.json", "weights.hdf5", "word.dic"],
    )
    path = packed("zip", tmp_path / "pickled", {**PICKLED, "vectors.hdf5": WEIGHTS})
    assert content_of(path)[1] == b"encoder"


@every_kind
def test_several_candidates_are_listed(kind, tmp_path):
    files = {"a/options.json": OPTIONS, "a/model.hdf5": WEIGHTS, "b/model.hdf5": WEIGHTS}
    path = packed(kind, tmp_path / "model", files)
    message = r"must hold weights\.hdf5.*found a/model\.hdf5, b/model\.hdf5\. Pass the pair"
    with pytest.raises(ValueError, match=message):
        content_of(path)


def test_a_folder_inside_a_folder_counts_only_where_the_outer_one_has_no_model(tmp_path):
    packed("folder", tmp_path, {"options.json": OPTIONS, "weights.hdf5": WEIGHTS})
    packed("folder", tmp_path / "x", {"options.json": b"{}", "weights.hdf5": b""})
    assert content_of(tmp_path)[:2] == (OPTIONS, WEIGHTS)
    packed("folder", tmp_path / "y" / ".partial-1", {"options.json": b"{}", "weights.hdf5": b""})
    with pytest.raises(FileNotFoundError, match="must hold options.json.*found nothing"):
        content_of(tmp_path / "y")


def links(target):
    add(target, "weights.hdf5", type=tarfile.SYMTYPE, linkname="/etc/passwd")
    add(target, "model.hdf5", type=tarfile.LNKTYPE, linkname="/etc/passwd")
    add(target, "x.hdf5", type=tarfile.CHRTYPE, devmajor=1, devminor=5)
    add(target, "y.hdf5", type=tarfile.FIFOTYPE)


def test_links_and_devices_are_not_read(tmp_path):
    path = tmp_path / "model.tgz"
    with tarfile.open(path, "w:gz") as target:
        links(target)
        add(target, "options.json", OPTIONS)
    with pytest.raises(FileNotFoundError, match=r"found options\.json\. Pass"):
        content_of(path)
    with tarfile.open(path, "w:gz") as target:
        links(target)
        add(target, "options.json", OPTIONS)
        add(target, "z.hdf5", WEIGHTS)
    assert content_of(path) == (OPTIONS, WEIGHTS, ["options.json", "weights.hdf5"])
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as target:
        link = zipfile.ZipInfo("weights.hdf5")
        link.external_attr = 0o120777 << 16
        target.writestr(link, "/etc/passwd")
        target.writestr("options.json", OPTIONS)
    with pytest.raises(FileNotFoundError, match=r"found options\.json\. Pass"):
        content_of(tmp_path / "model.zip")


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_names_that_lead_outside_are_unpacked_inside(kind, tmp_path):
    outside = tmp_path / "outside"
    files = {f"{outside}/options.json": OPTIONS, "../../../weights.hdf5": WEIGHTS}
    path = packed(kind, tmp_path / "model", files)
    assert content_of(path) == (OPTIONS, WEIGHTS, ["options.json", "weights.hdf5"])
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_sizes_are_limited(kind, tmp_path, monkeypatch):
    def too_large(files, name, size, most):
        path = packed(kind, tmp_path / "model", {**files, name: bytes(size)})
        message = rf"{name} in .* would have {size:,} bytes unpacked; expected at most {most}"
        with pytest.raises(ValueError, match=message):
            content_of(path)

    monkeypatch.setattr(archive, "_MOST_PICKLE_BYTES", 1000)
    monkeypatch.setattr(archive, "MAX_LEXICON_BYTES", 500)
    model = {"options.json": OPTIONS, "weights.hdf5": WEIGHTS}
    too_large(model, "options.json", 1_100_000, "1,048,576")
    too_large(model, "weights.hdf5", 5_000_000, "4,355,344")
    too_large(model, "word.dic", 501, "500")
    too_large(PICKLED, "config.json", 1_100_000, "1,048,576")
    too_large(PICKLED, "encoder.pkl", 1001, "1,000")
    too_large(PICKLED, "token_embedder.pkl", 1001, "1,000")
    too_large(PICKLED, "char.dic", 501, "500")


def test_a_tar_file_that_is_made_to_exhaust_time_or_memory_is_refused(tmp_path):
    def refused(message):
        with pytest.raises(ValueError, match=rf"bad\.tgz cannot be unpacked: {message}"):
            content_of(tmp_path / "bad.tgz")

    with gzip.open(tmp_path / "bad.tgz", "wb", compresslevel=1) as file:
        file.write(tarfile.TarInfo("x").tobuf())
        info = tarfile.TarInfo("README")
        info.size = 1 << 40
        file.write(info.tobuf())
        for _ in range(70):
            file.write(bytes(1 << 20))
    refused("it has over 67,108,864 bytes unpacked")
    with tarfile.open(tmp_path / "bad.tgz", "w:gz") as target:
        add(target, "x" * 2_000_000)
    refused("a header of it has 2,0")
    with tarfile.open(
        tmp_path / "bad.tgz", "w:gz", pax_headers={"comment": "x" * 20_000}
    ) as target:
        add(target, "x")
    refused("a header of it has 20,")
    for headers in (
        {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x"},
        {"GNU.sparse.map": "0,1," * 1000},
    ):
        with tarfile.open(tmp_path / "bad.tgz", "w:gz", format=tarfile.PAX_FORMAT) as target:
            add(target, "x", b"1000000000\n" * 100, pax_headers=headers)
        refused("it has a sparse file")
    with tarfile.open(tmp_path / "bad.tgz", "w:gz") as target:
        for _ in range(10_001):
            add(target, "x")
    refused("it has over 10,000 members")


def test_global_headers_are_not_kept_with_every_member(tmp_path):
    headers = {f"{i}": "" for i in range(1000)}
    with tarfile.open(tmp_path / "m.tgz", "w:gz", pax_headers=headers) as target:
        for _ in range(500):
            add(target, "x")
        add(target, "options.json", OPTIONS)
        add(target, "weights.hdf5", WEIGHTS)
    tracemalloc.start()
    try:
        assert content_of(tmp_path / "m.tgz")[:2] == (OPTIONS, WEIGHTS)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_zip_file_may_not_unpack_to_more_than_a_hundred_times_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "most_content_bytes", lambda path: 1000)
    model = {"options.json": OPTIONS, "weights.hdf5": bytes(1001)}
    with pytest.raises(ValueError, match="would have 1,001 bytes unpacked; expected at most 1,000"):
        content_of(packed("zip", tmp_path / "m", model))


@pytest.mark.parametrize("damage", ["cut off", "checksum", "no tar", "no gzip", "empty"])
def test_a_damaged_tar_file_is_named(damage, tmp_path):
    path = packed("tar.gz", tmp_path / "m", {"weights.hdf5": WEIGHTS, "options.json": OPTIONS})
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut off": data[: len(data) // 2],
            "checksum": data[:-8] + bytes(4) + data[-4:],
            "no tar": gzip.compress(b"just text" * 1000),
            "no gzip": data[:10] + b"x" * 1000,
            "empty": gzip.compress(b""),
        }[damage]
    )
    with pytest.raises(ValueError, match=r"m\.tar\.gz cannot be unpacked: .*pack or copy it again"):
        content_of(path)


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
@pytest.mark.parametrize(
    "variant, names",
    [
        ("word_char", {"char.dic", "word.dic", "cnn_50_100_512_4096_sample.json"}),
        ("char_only", {"char.dic", "word.dic", "cnn_0_100_512_4096_sample.json"}),
        ("tanh_clips", {"char.dic", "word.dic", "small.json"}),
        ("word_only", {"word.dic", "cnn_50_100_512_4096_sample.json"}),
    ],
)
def test_models_of_elmo_for_many_langs(kind, variant, names, tmp_path):
    source = MANY_LANGUAGES / variant
    if not source.is_dir():
        pytest.skip("there are no golden models of ELMoForManyLangs")
    if kind == "folder":
        path = shutil.copytree(source, tmp_path / variant)
    else:
        format = {"zip": "zip", "tar.gz": "gztar"}[kind]
        path = Path(shutil.make_archive(str(tmp_path / variant), format, source))
    config, encoder, found = content_of(path)
    assert config == (source / "config.json").read_bytes()
    assert encoder == (source / "encoder.pkl").read_bytes()
    names = {*names, "config.json", "encoder.pkl", "token_embedder.pkl"}
    assert set(found) == (set(os.listdir(source)) if kind == "folder" else names)
