"""Fetching a data set that may not be shipped: one file out of an archive on the web, into the cache.

Nothing reaches the disk before its sha256 is right, and the file appears there in one step: an
interrupted, truncated or altered download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from butfor.errors import DatasetError

TIMEOUT = 30.0
"""Seconds without a byte from the server after which a download is given up."""

_MOST_BYTES = 256 * 1024**2  # far above any archive meant here; stops an endless answer or a zip bomb
_CHUNK = 64 * 1024


def cache_directory() -> Path:
    """Where the operating system keeps what can be fetched again, subfolder ``butfor``."""
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        root = Path.home() / "Library" / "Caches"
    else:
        root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "butfor"


def fetch(member: str, sha256: Collection[str], url: str, folder: Path, timeout: float = TIMEOUT) -> Path:
    """Download the archive at `url` and put its file `member` into `folder`, verified and atomically.

    The archive may hold the file inside further zip archives. Any failure is a `DatasetError` whose
    text is the reason alone, for the caller's sentence; `folder` then holds what it held before.
    """
    content = _unpack(_download(url, timeout), member)
    if content is None:
        raise DatasetError(f"the archive holds no file {member}")
    if hashlib.sha256(content).hexdigest() not in sha256:
        raise DatasetError(f"{member} in the archive is not the published file (its sha256 differs)")
    try:
        return _write(content, folder / member)
    except OSError as error:
        raise DatasetError(f"{folder / member} cannot be written ({_reason(error)})") from error


def _download(url: str, timeout: float) -> bytes:
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    content = bytearray()
    try:
        with urlopen(Request(url, headers={"User-Agent": "butfor"}), timeout=timeout) as answer:
            length = answer.headers.get("Content-Length")
            expected = int(length) if length and length.isdigit() else None
            with _progress(expected) as advance:
                while chunk := answer.read(_CHUNK):
                    content += chunk
                    advance(len(chunk))
                    if len(content) > _MOST_BYTES:
                        raise DatasetError("the server sent far more than the archive's size")
    except HTTPError as error:
        error.close()
        raise DatasetError(f"the server answered {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        raise DatasetError(_reason(error)) from error
    # Read in chunks, http.client takes a connection closed too early for the end.
    if expected is not None and len(content) < expected:
        raise DatasetError(f"the download broke off after {len(content)} of {expected} bytes")
    return bytes(content)


def _unpack(archive: bytes, member: str) -> bytes | None:
    """The bytes of `member` in a zip archive or in the zip archives inside it, None if it is not there."""
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            for entry in opened.infolist():
                # The whole name: archives made on macOS carry a shadow '._name' beside each file.
                name = PurePosixPath(entry.filename).name
                if name != member and not name.endswith(".zip"):
                    continue
                if entry.file_size > _MOST_BYTES:
                    raise DatasetError(f"{entry.filename} in the archive is far too large")
                content = opened.read(entry)
                found = content if name == member else _unpack(content, member)
                if found is not None:
                    return found
    except DatasetError:
        raise
    except Exception as error:  # damaged bytes make zipfile raise a dozen kinds of exception
        raise DatasetError(f"what came is not an intact zip archive ({_reason(error)})") from error
    return None


def _write(content: bytes, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return path


@contextmanager
def _progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr that a reader at a terminal sees; nothing in logs and pipes."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Downloading", total=total)
        yield lambda count: bar.advance(task, count)


def _reason(error: Exception) -> str:
    """One short line: urllib wraps the interesting part, and some exceptions have no text at all."""
    return str(getattr(error, "reason", None) or error).strip() or type(error).__name__
