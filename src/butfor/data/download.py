"""Fetching a data set that may not be shipped: one file out of an archive on the web, into the cache.

Nothing reaches the disk before its sha256 is right, and the file appears there in one step: an interrupted, truncated
or altered download leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from butfor.errors import DatasetError

TIMEOUT = 30.0
"""Seconds without a byte from the server after which a download is given up."""
MOST_BYTES = 256 * 1024**2
"""Far above any archive meant here; stops an endless answer or a zip bomb."""


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

    The archive may hold the file inside further zip archives. Any failure is a `DatasetError` whose text is the reason
    alone, for the caller's sentence; `folder` then holds what it held before."""
    archive = _download(url, timeout)
    try:
        content = _unpack(archive, member)
    except DatasetError:
        raise
    except Exception as error:  # damaged bytes make zipfile raise a dozen kinds of exception
        raise DatasetError(f"what came is not an intact zip archive ({error})") from error
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
        raise DatasetError(f"{path} cannot be written ({error})") from error
    return path


def _download(url: str, timeout: float) -> bytes:
    from http.client import HTTPException, IncompleteRead
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    if sys.stderr.isatty():
        sys.stderr.write(f"Downloading {url}\n")
    try:
        with urlopen(Request(url, headers={"User-Agent": "butfor"}), timeout=timeout) as answer:
            archive: bytes = answer.read(MOST_BYTES + 1)
            announced = int(answer.headers.get("Content-Length") or len(archive))
    except HTTPError as error:
        error.close()
        raise DatasetError(f"the server answered {error.code} {error.reason}") from error
    except IncompleteRead as error:
        raise DatasetError(f"the download broke off after {len(error.partial)} bytes") from error
    except (OSError, HTTPException, ValueError) as error:
        raise DatasetError(str(error) or type(error).__name__) from error
    if len(archive) > MOST_BYTES:
        raise DatasetError("the server sent far more than the archive's size")
    if len(archive) < announced:
        raise DatasetError(f"the download broke off after {len(archive)} of {announced} bytes")
    return archive


def _unpack(archive: bytes, member: str) -> bytes | None:
    """The bytes of `member` in a zip archive or in the zip archives inside it, None if it is not there."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        for entry in opened.infolist():
            # The whole name: archives made on macOS carry a shadow '._name' beside each file.
            name = PurePosixPath(entry.filename).name
            if name != member and not name.endswith(".zip"):
                continue
            if entry.file_size > MOST_BYTES:
                raise DatasetError(f"{entry.filename} in the archive is far too large")
            content = opened.read(entry)
            found = content if name == member else _unpack(content, member)
            if found is not None:
                return found
    return None
