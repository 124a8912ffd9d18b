"""The explorer: a local page in the browser that shows how a model represents a text."""

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import webbrowser
from pathlib import Path

_HOST = "127.0.0.1"
_SETTINGS = {
    "server.address": _HOST,
    # Against DNS rebinding: a foreign page whose host name resolves to this machine.
    "server.allowedHosts": _HOST,
    "server.headless": "true",  # no prompt for an e-mail address; the browser is opened here
    "server.fileWatcherType": "none",
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "theme.light.primaryColor": "#0072b2",
    "theme.dark.primaryColor": "#56b4e9",
}


def serve(model: str = "default", *, port: int = 8501, open_browser: bool = True) -> None:
    """Serves the explorer, only on this machine, at http://127.0.0.1:PORT, until interrupted.

    Args:
        model: A path or name, as for `Embedder`. With `"default"` or the folder of a training run,
            which have a softmax, the page also shows how probable each word is for the language
            model.
        port: The port; no other port is tried.
        open_browser: Whether to open the page.

    Raises:
        ImportError: if Streamlit is not installed.
        OSError: if the port is taken.
        RuntimeError: if the server stops by itself.

    Example:

    >>> serve("original")
    """
    if importlib.util.find_spec("streamlit") is None:
        raise ImportError('The explorer needs Streamlit: pip install "keras-elmo[explore]"')
    _check_port(port)
    options = [f"--{name}={value}" for name, value in _SETTINGS.items()]
    page = Path(__file__).with_name("page.py")
    # Unlike `-m streamlit`, this imports nothing from the working directory.
    code = "import sys; sys.path[:] = filter(None, sys.path); from streamlit.web import cli; "
    command = [sys.executable, "-c", f"{code}cli.main()", "run", str(page), *options]
    # In the process group of this process, so that Ctrl-C reaches both.
    server = subprocess.Popen(
        [*command, f"--server.port={port}", "--", model],
        env={"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1", **os.environ},
        stdout=subprocess.DEVNULL,
    )
    is_main = threading.current_thread() is threading.main_thread()
    # By default Python would exit at once and leave the server running.
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)) if is_main else None
    try:
        if open_browser:
            threading.Thread(target=_open_when_up, args=(server, port), daemon=True).start()
        if server.wait():
            raise RuntimeError(f"The explorer's server stopped with exit code {server.returncode}.")
    finally:
        server.terminate()
        with contextlib.suppress(KeyboardInterrupt):
            server.wait()
        if is_main:
            signal.signal(signal.SIGTERM, previous or signal.SIG_DFL)


def _check_port(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except (OSError, OverflowError) as error:
            raise OSError(
                f"Cannot serve on port {port}: {error}. Choose a different port."
            ) from None


def _open_when_up(server, port):
    while server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((_HOST, port), timeout=1):
            webbrowser.open(f"http://{_HOST}:{port}")
            return
        time.sleep(0.1)
