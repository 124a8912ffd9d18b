"""The explorer shows the numbers of the model."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from helpers import TINY, to_numpy
from keras_elmo import (
    ElmoLayer,
    analysis,
    cli,
    encode_sentences,
    explore,
    perplexity,
)
from training_models import DATA, tiny_model, vocabulary

pytest.importorskip("streamlit", reason="the explorer needs Streamlit")
import streamlit
from streamlit.testing.v1 import AppTest

PAGE = Path(explore.__file__).with_name("page.py")


@pytest.fixture(autouse=True)
def nothing_cached():
    yield
    streamlit.cache_resource.clear()
    streamlit.cache_data.clear()


@pytest.fixture
def page(monkeypatch):
    """Opens a view of the page of a model."""

    def opened(view, model=TINY):
        monkeypatch.setattr(sys, "argv", ["page.py", str(model)])
        app = AppTest.from_file(PAGE, default_timeout=120).run()
        return done(app.radio[0].set_value(view))

    return opened


def done(widget):
    app = widget.run()
    assert not app.exception
    return app


def typed(app, label, value):
    (widget,) = [w for w in (*app.text_input, *app.text_area) if w.label == label]
    return done(widget.set_value(value))


def layers(sentence):
    return to_numpy(ElmoLayer(TINY, output="layers")(encode_sentences([sentence.split()])))[0]


def charts(app):
    return [json.loads(chart.proto.spec) for chart in app.get("vega_lite_chart")]


def test_similarity_and_its_weights(page):
    app = typed(page("Similarity"), "First sentence", "The bank paid .")
    app = typed(app, "Second sentence", "On the bank")
    table = app.dataframe[0].value
    first, second = layers("The bank paid ."), layers("On the bank")
    for layer, name in enumerate(["token vectors", "LSTM 1", "LSTM 2"]):
        found = table[table.layer == name].cosine.to_numpy().reshape(4, 3)
        norms = np.linalg.norm(first[layer], axis=1)[:, None] * np.linalg.norm(
            second[layer], axis=1
        )
        np.testing.assert_allclose(found, first[layer] @ second[layer].T / norms, atol=1e-5)
    (slider,) = [slider for slider in app.slider if slider.label == "s of LSTM 2"]
    after = done(slider.set_value(5.0)).dataframe[0].value
    is_sum = table.layer == "weighted sum"
    assert after[~is_sum].equals(table[~is_sum])
    mixes = [analysis.mixed(x, [0, 0, 5]) for x in (first, second)]
    expected = analysis.cosines(*mixes).ravel()
    np.testing.assert_allclose(after[is_sum].cosine, expected, atol=1e-5)
    (chart,) = charts(app)
    assert chart["facet"]["column"]["sort"] == ["token vectors", "LSTM 1", "LSTM 2", "weighted sum"]
    assert chart["spec"]["encoding"]["color"]["scale"]["scheme"] == "cividis"


def test_characters_and_filters(page):
    app = typed(page("Characters and filters"), "Words", "caf\u00e9 a")
    spelled, fired = (element.value for element in app.dataframe)
    rows = encode_sentences([["caf\u00e9", "a"]])[0, 1:-1]
    assert spelled.ids.tolist() == [" ".join(map(str, row)) for row in rows]
    assert spelled["UTF-8"].tolist() == ["63 61 66 c3 a9", "61"]
    encoder = ElmoLayer(TINY).token_encoder
    table = np.pad(to_numpy(encoder.char_embedding), ((1, 0), (0, 0)))[rows]
    for (width, _), convolution in zip(encoder.filters, encoder.convolutions):
        kernel, bias = map(to_numpy, convolution.weights)
        windows = np.lib.stride_tricks.sliding_window_view(table, width, axis=1)
        outputs = np.einsum("ntcw,wcf->ntf", windows, kernel) + bias
        activations = np.maximum(outputs, 0).max(axis=1)
        found = fired[fired.width == width].activation
        np.testing.assert_allclose(found, activations.mean(axis=1), atol=1e-5)


def test_uses_of_a_word(page):
    sentences = ["The bank paid .", "nothing", "On the Bank we sat .", "A bank"]
    app = typed(page("Uses of a word"), "Word", "bank")
    app = typed(app, "Sentences, one a line", "\n".join(sentences))
    vectors = np.stack([layers(sentences[i])[-1, j] for i, j in ((0, 1), (2, 2), (3, 1))])
    near = analysis.nearest(vectors, 1)
    contexts = ["The [bank] paid .", "On the [Bank] we sat .", "A [bank]"]
    table = app.dataframe[0].value
    assert table.use.tolist() == contexts
    assert table["nearest use"].tolist() == [contexts[j] for [(j, _)] in near]
    np.testing.assert_allclose(table.cosine, [cosine for [(_, cosine)] in near], atol=1e-5)
    app = typed(app, "Word", "shore")
    assert "not occur in the 4 sentences" in app.error[0].value.replace("\\", "")
    app = typed(typed(app, "Word", "bank"), "Sentences, one a line", "A bank .")
    assert "occurs only once" in app.info[0].value


def test_how_sure_the_language_model_is(page, tmp_path):
    model, words = tiny_model(), vocabulary()
    model.export_hdf5(tmp_path / "model", words)
    sentence = (DATA / "heldout.txt").read_text().splitlines()[0]
    (tmp_path / "text.txt").write_text(sentence + "\n")
    scores = []
    perplexity(model, tmp_path / "text.txt", words, on_sentence=scores.append)
    app = typed(page("Language model", tmp_path / "model"), "Sentence", f"{sentence} zzz")
    app = typed(app, "Sentence", sentence)
    table, count = app.dataframe[0].value, len(sentence.split())
    forward = table[table.direction == "forward"].probability
    backward = table[table.direction == "backward"].probability
    np.testing.assert_allclose(forward, np.exp(-scores[0].forward[:count]), rtol=1e-4)
    np.testing.assert_allclose(backward, np.exp(-scores[0].backward[-count:]), rtol=1e-4)
    np.testing.assert_allclose(table.bits, -np.log2(table.probability), rtol=1e-4)


def test_a_model_without_a_softmax_says_how_to_get_one(page):
    assert "keras-elmo train" in page("Language model").info[0].value


def test_wrong_input_shows_a_message(page):
    app = page("Similarity")
    for text, message in (("  ", "at least one word, got none"), (61 * "a ", "at most 60 words")):
        app = typed(app, "First sentence", text)
        assert message in app.error[0].value.replace("\\", "")
    app = typed(app, "First sentence", "Hello there.")
    assert any("there.: tokens are separated" in caption.value for caption in app.caption)
    app = done(app.radio[0].set_value("Uses of a word"))
    app = typed(app, "Word", "![x](http://a.b/x.png)")
    assert "![" not in app.error[0].value  # typed text is not markup


def test_a_taken_port_is_named(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert cli.main(["explore", "--port", port, "--no-browser"]) == 1
    assert f"Cannot serve on port {port}" in capsys.readouterr().err


def test_a_wrong_model_is_named_before_anything_starts(capsys):
    assert cli.main(["explore", "--model", "smal"]) == 1
    assert "Did you mean 'small'" in capsys.readouterr().err


def test_without_streamlit_the_extra_is_named(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert cli.main(["explore"]) == 1
    assert "keras-elmo[explore]" in capsys.readouterr().err


@pytest.fixture
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "keras_elmo", "explore", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--model", TINY], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{address}/_stcore/health").close()
            break
        except OSError:
            time.sleep(0.1)
    yield process, address
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=60)[0].decode()
    assert process.returncode in (130, 143), output
    assert "Traceback" not in output, output


@pytest.mark.slow
def test_a_foreign_host_is_refused_and_the_server_ends_with_the_command(server):
    """As a browser sends it for a page of a host whose name was made to point to this machine."""
    process, address = server
    port = int(address.rpartition(":")[2])

    def status(host):
        request = (
            f"GET /_stcore/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            connection.sendall(request.encode())
            return connection.recv(1000).split()[1]

    assert status(f"127.0.0.1:{port}") == b"101"
    for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}"):
        assert status(host) == b"403"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    with pytest.raises(OSError):
        urllib.request.urlopen(address)


@pytest.mark.slow
def test_in_a_browser(server, tmp_path):
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    chromium = next(filter(os.path.exists, ["/usr/bin/chromium", "/usr/bin/google-chrome"]), None)
    if chromium is None:
        pytest.skip("needs Debian's chromium")
    _, address = server
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        requests = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        first = page.get_by_role("textbox", name="First sentence")
        first.wait_for(timeout=120_000)
        first.fill("A cold hand")
        page.keyboard.press("Enter")
        cell = page.locator("[aria-label*='first: 3 hand; second: 3 hand']")
        cell.first.wait_for(timeout=30_000)
        found = [
            float(re.search(r"cosine: ([-\u2212.\d]+)", label).group(1).replace("\u2212", "-"))
            for label in cell.evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
        ]
        expected = analysis.cosines(layers("A cold hand"), layers("Her left hand was cold ."))
        np.testing.assert_allclose(found[:3], expected[:, 2, 2], atol=1e-5)
        # A button that is pressed while the page is built may be replaced by a new one.
        page.locator("[data-test-script-state='notRunning']").wait_for(timeout=30_000)
        for kind, begin in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"layer,")):
            with page.expect_download() as download:
                page.get_by_role("button", name=f"Save as {kind}", exact=True).first.click()
            assert Path(download.value.path()).read_bytes().startswith(begin)
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.getAttribute('aria-label')"))
        assert {"First sentence", "Second sentence", "s of LSTM 1", "gamma"} <= reached
        page.get_by_text("Characters and filters", exact=True).click()
        typed = page.get_by_role("textbox", name="Words")
        typed.fill("of banks there")  # the second word was there before
        page.keyboard.press("Enter")
        words = page.locator("[aria-label^='Y-axis'] text")
        words.get_by_text("there", exact=True).wait_for(timeout=30_000)
        assert words.all_text_contents()[:3] == ["of", "banks", "there"]
        page.get_by_text("Uses of a word", exact=True).click()
        page.get_by_text("Nearest uses").wait_for(timeout=30_000)
        browser.close()
    assert all(url.startswith((address, "data:", "blob:")) for url in requests)
