"""The downloader against a server on loopback: what arrives whole is kept, anything else leaves no trace."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import os
import socket
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from butfor.data import catalogue, catalogue_frame, load, load_dataset
from butfor.errors import DatasetError

MEMBER = "bank-additional-full.csv"


def bank_like(rows: int = 60) -> bytes:
    """A made-up table of Bank's shape; none of it is Bank's."""
    header = ";".join([*catalogue.SPECS["bank"].columns, "y"])
    lines = [
        f"{20 + i};services;{('married', 'single')[i % 2]};high.school;{('no', 'yes')[i == 0]};no;no;"
        f"cellular;may;mon;{100 + i};1;5;0;failure;0.5;50;-10;2;1000;{('no', 'yes')[i % 3 == 0]}"
        for i in range(rows)
    ]
    return "\n".join([header, *lines]).encode()


CONTENT = bank_like()
SHA256 = (hashlib.sha256(CONTENT).hexdigest(),)


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


INNER = zipped(
    {
        f"__MACOSX/bank-additional/._{MEMBER}": b"not the table",
        "bank-additional/": b"",
        f"bank-additional/{MEMBER}": CONTENT,
    }
)
NESTED = zipped({"bank.zip": zipped({"bank.csv": b"a;b\n1;2\n"}), "bank-additional.zip": INNER})


class Server(ThreadingHTTPServer):
    """Answers every request with `body`, announcing `length` bytes."""

    daemon_threads = True
    body: bytes = b""
    status: int = 200
    length: int | None = None
    asked: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/bank.zip"

    def serve(self, body: bytes, status: int = 200, length: int | None = None) -> str:
        self.body, self.status, self.length = body, status, length
        return self.url


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        self.send_response(self.server.status)
        if self.server.length != -1:
            self.send_header("Content-Length", str(self.server.length or len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Silence: the tests' output is not a server's log."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache directory that does not exist yet, and no other place to find Bank."""
    folder = tmp_path / "cache" / "butfor"
    monkeypatch.delenv("BUTFOR_DATA", raising=False)
    monkeypatch.setattr("butfor.data.load.cache_directory", lambda: folder)
    return folder


def serve_bank_at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Point the catalogue's Bank at that address, with the made-up table for the published one."""
    spec = catalogue.SPECS["bank"]
    monkeypatch.setitem(catalogue.SPECS, "bank", dataclasses.replace(spec, files={MEMBER: SHA256}, url=url))


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_the_published_address() -> None:
    assert catalogue.SPECS["bank"].url == "https://archive.ics.uci.edu/static/public/222/bank+marketing.zip"


@pytest.mark.parametrize("archive", [NESTED, INNER, zipped({MEMBER: CONTENT})], ids=["nested", "inner", "flat"])
@pytest.mark.parametrize("length", [None, -1], ids=["length announced", "length unknown"])
def test_the_file_is_found_and_kept(server: Server, tmp_path: Path, archive: bytes, length: int | None) -> None:
    folder = tmp_path / "new" / "cache"
    path = load.fetch(MEMBER, SHA256, server.serve(archive, length=length), folder)
    assert path == folder / MEMBER
    assert path.read_bytes() == CONTENT
    assert list(folder.iterdir()) == [path]


damaged = bytearray(NESTED)
damaged[len(damaged) // 2] ^= 0xFF
REFUSED = {
    "broken off": (NESTED[:-100], 200, len(NESTED), "not an intact zip"),
    "truncated": (NESTED[: len(NESTED) // 2], 200, None, "not an intact zip archive"),
    "damaged": (bytes(damaged), 200, None, "not an intact zip archive"),
    "altered": (zipped({MEMBER: CONTENT + b"\n"}), 200, None, "not the published file"),
    "a page": (b"<html>Sign in to this network</html>", 200, None, "not an intact zip archive"),
    "empty": (b"", 200, None, "not an intact zip archive"),
    "other files": (zipped({"bank.csv": CONTENT}), 200, None, f"no file {MEMBER}"),
    "not found": (b"gone", 404, None, "404: Not Found"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_else_is_refused_and_leaves_nothing(server: Server, tmp_path: Path, case: str) -> None:
    body, status, length, reason = REFUSED[case]
    with pytest.raises(DatasetError, match=reason):
        load.fetch(MEMBER, SHA256, server.serve(body, status, length), tmp_path / "cache")
    assert not list(tmp_path.iterdir())


def test_an_endless_answer_is_given_up(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MOST_BYTES", 1000)
    with pytest.raises(DatasetError, match="far more"):
        load.fetch(MEMBER, SHA256, server.serve(b"x" * 5000, length=-1), tmp_path / "cache")
    packed = zipped({MEMBER: b"0" * 100_000})
    assert len(packed) < 1000
    with pytest.raises(DatasetError, match="far too large"):
        load.fetch(MEMBER, SHA256, server.serve(packed), tmp_path / "cache")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_write_leaves_the_old_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    (tmp_path / MEMBER).write_bytes(b"old")

    def interrupted(*paths: object) -> None:
        raise interruption

    monkeypatch.setattr(os, "replace", interrupted)
    expected = DatasetError if isinstance(interruption, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        load.fetch(MEMBER, SHA256, server.serve(NESTED), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [MEMBER]
    assert (tmp_path / MEMBER).read_bytes() == b"old"


def test_a_silent_server_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(DatasetError, match="timed out"):
            load.fetch(MEMBER, SHA256, url, tmp_path / "cache", timeout=0.1)


def test_first_use_downloads_and_the_next_reads_the_cache(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_bank_at(monkeypatch, server.serve(NESTED))
    assert catalogue_frame().set_index("name").loc["bank", "label_balance"] is None
    assert server.asked == 0
    data = load_dataset("bank")
    assert (len(data.X_train), len(data.X_val), len(data.X_test)) == (36, 12, 12)
    assert set(data.X_train["marital"]) == {"married", "not married"}
    assert load_dataset("bank").X_test.equals(data.X_test)
    assert server.asked == 1
    assert [path.name for path in cache.iterdir()] == [MEMBER]


def test_a_named_directory_saves_the_download(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_bank_at(monkeypatch, server.serve(NESTED))
    (tmp_path / MEMBER).write_bytes(CONTENT)
    monkeypatch.setenv("BUTFOR_DATA", str(tmp_path))
    assert len(load_dataset("bank").X_train) == 36
    assert server.asked == 0
    assert not cache.exists()


def test_an_altered_cache_is_refused_by_name(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_bank_at(monkeypatch, server.serve(NESTED))
    cache.mkdir(parents=True)
    (cache / MEMBER).write_bytes(CONTENT[:-5])
    with pytest.raises(DatasetError, match=rf"{MEMBER} is not the published .* remove it"):
        load_dataset("bank")


def test_no_network_and_no_file(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    home, named = tmp_path / "home", tmp_path / "named"
    for place in (home, named):
        place.mkdir()
    url = f"http://127.0.0.1:{closed_port()}/bank.zip"
    serve_bank_at(monkeypatch, url)
    monkeypatch.setenv("BUTFOR_DATA", str(named))
    with pytest.raises(DatasetError) as refused:
        load_dataset("bank", data_home=home)
    message = str(refused.value)
    for tried in (home, named, cache, url, f"{MEMBER}.gz", "refused"):
        assert str(tried) in message
    assert "network and try again" in message
    assert "BUTFOR_DATA=/" in message
    assert not cache.exists()


def test_progress_is_drawn_only_for_a_terminal(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load.fetch(MEMBER, SHA256, server.serve(NESTED), tmp_path)
    assert capsys.readouterr() == ("", "")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    load.fetch(MEMBER, SHA256, server.serve(NESTED), tmp_path)
    assert "Downloading" in terminal.getvalue()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("variable", "ending"), [("there", "there/butfor"), ("", "home/.cache/butfor")])
def test_cache_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, ending: str) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.setenv("XDG_CACHE_HOME", variable and str(tmp_path / variable))
    assert load.cache_directory() == tmp_path / ending
