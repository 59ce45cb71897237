"""Fetching a data set that may not be shipped: one file out of an archive on the web, into the cache.

pooch downloads into memory. Nothing reaches the disk before its sha256 is right, and the file appears
there in one step: an interrupted, truncated or altered download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Collection
from contextlib import nullcontext
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
    path = folder / member
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{member}.", dir=folder) as unfinished:
            Path(unfinished, member).write_bytes(content)
            os.replace(Path(unfinished, member), path)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written ({_reason(error)})") from error
    return path


class _Archive(io.BytesIO):
    """What has come so far; it refuses more than any archive meant here can have."""

    def write(self, chunk: bytes) -> int:  # type: ignore[override]
        if self.tell() + len(chunk) > _MOST_BYTES:
            raise OSError("the server sent far more than the archive's size")
        return super().write(chunk)


def _download(url: str, timeout: float) -> bytes:
    try:
        import pooch
        from urllib3.exceptions import IncompleteRead
    except ImportError as error:
        raise DatasetError(f"pooch, the package that downloads, cannot be loaded ({_reason(error)})") from error
    from rich.console import Console

    # Not pooch.retrieve: it verifies and keeps a whole archive, but published is the sha256 of a file
    # inside. The transfer alone logs nothing and draws no bar of its own.
    transfer = pooch.HTTPDownloader(chunk_size=_CHUNK, timeout=timeout, headers={"User-Agent": "butfor"})
    archive = _Archive()
    try:
        # A reader at a terminal sees that something goes on; logs and pipes are left alone.
        with Console(stderr=True).status("Downloading") if sys.stderr.isatty() else nullcontext():
            transfer(url, archive, None)
    except Exception as error:  # pooch lets through requests' kinds, and requests some of urllib3's
        answer, root, reason = getattr(error, "response", None), _root(error), _reason(error)
        if answer is not None:
            answer.close()
            reason = f"the server answered {answer.status_code} {answer.reason}"
        elif isinstance(root, IncompleteRead):
            reason = f"the download broke off after {root.partial} of {root.partial + root.expected} bytes"
        raise DatasetError(reason) from error
    return archive.getvalue()


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


def _root(error: BaseException) -> BaseException:
    """What happened first: requests and urllib3 wrap it several times over, as cause or as argument."""
    while isinstance(inner := error.__cause__ or next(reversed(error.args), None), BaseException):
        error = inner
    return error


def _reason(error: BaseException) -> str:
    """One short line, also for exceptions that have no text at all."""
    root = _root(error)
    return str(root).strip() or type(root).__name__
