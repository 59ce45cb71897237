"""Bank's download against a server on loopback: what arrives whole is kept, anything else leaves no trace."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from butfor.data import SPECS, catalogue_frame, load_dataset
from butfor.data.load import download
from butfor.errors import DatasetError

BANK = SPECS["bank"]
FILE = next(iter(BANK.files))


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def published(content: bytes) -> bytes:
    """An archive as it is published, with shadows of macOS beside the file."""
    folder = {f"__MACOSX/bank-additional/._{FILE}": b"", "bank-additional/": b"", f"bank-additional/{FILE}": content}
    return zipped({"bank.zip": zipped({"bank.csv": b"a;b\n1;2\n"}), "bank-additional.zip": zipped(folder)})


# A made-up table of Bank's shape; none of it is Bank's.
CONTENT = "\n".join(
    [
        ";".join([*BANK.columns.split(), "y"]),
        *(
            f"{20 + i};services;{('married', 'single')[i % 2]};high.school;{('no', 'yes')[i == 0]};no;no;cellular;may;"
            f"mon;{100 + i};1;5;0;failure;0.5;50;-10;2;1000;{('no', 'yes')[i % 3 == 0]}"
            for i in range(60)
        ),
    ]
).encode()
WHOLE = published(CONTENT)


class Server(ThreadingHTTPServer):
    """Answers every request with `body`."""

    daemon_threads = True
    body: bytes = WHOLE
    status: int = 200
    asked: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/bank.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: the tests' output is not a server's log."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """Where the made-up Bank is downloaded from, with no other place to find it."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("BUTFOR_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with Server(("127.0.0.1", 0), Handler) as running:
        files = {FILE: [hashlib.sha256(CONTENT).hexdigest()]}
        monkeypatch.setitem(SPECS, "bank", dataclasses.replace(BANK, url=running.url, files=files))
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_first_use_downloads_and_the_next_reads_the_cache(server: Server, tmp_path: Path) -> None:
    assert catalogue_frame().set_index("name").loc["bank", "label_balance"] is None
    assert server.asked == 0
    data = load_dataset("bank")
    assert (len(data.X_train), len(data.X_val), len(data.X_test)) == (36, 12, 12)
    assert set(data.X_train["marital"]) == {"married", "not married"}
    assert load_dataset("bank").X_test.equals(data.X_test)
    assert server.asked == 1
    kept = tmp_path / "cache" / "butfor" / FILE
    assert list(kept.parent.iterdir()) == [kept]
    kept.write_bytes(CONTENT[:-5])
    with pytest.raises(DatasetError, match=rf"{FILE} is not the published .* remove it"):
        load_dataset("bank")
    (tmp_path / FILE).write_bytes(CONTENT)
    assert len(load_dataset("bank", data_home=tmp_path).X_train) == 36
    assert server.asked == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 503}, "503"),
        ({"body": b""}, "not a zip file"),
        ({"body": b"<html>Sign in</html>"}, "not a zip file"),
        ({"body": WHOLE[: len(WHOLE) // 2]}, "not a zip file"),
        ({"body": zipped({"other.zip": b""})}, "There is no item named 'bank-additional.zip'"),
        ({"body": published(CONTENT + b"\n")}, "not the published file"),
    ],
)
def test_another_answer_leaves_no_trace(server: Server, tmp_path: Path, answer: dict[str, object], said: str) -> None:
    for name, value in answer.items():
        setattr(server, name, value)
    with pytest.raises(DatasetError, match=said) as refused:
        load_dataset("bank")
    for words in (server.url, f"{FILE}.gz", str(tmp_path / "cache"), "network and try again", "BUTFOR_DATA=/"):
        assert words in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_server_that_says_nothing_and_a_place_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(OSError, match="timed out"):
            download(url, BANK.inside, ["0"], tmp_path / FILE, timeout=0.1)
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(DatasetError, match="could not be downloaded"):
        load_dataset("bank")
