"""Lines on a terminal: whatever a table's names and values hold, they are shown, never obeyed.

Characters that steer a terminal or turn the direction of writing are left out. A stream that does
not know a character gets the nearest it has ("->" for →), and one that nobody reads any longer
swallows the rest.
"""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import sys
import textwrap
from contextlib import suppress
from typing import TextIO

TURNS = "\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"
STEERING = re.compile(
    "\x1b\\[[0-?]*[ -/]*[@-~]"  # colours, cursor
    "|\x1b[\\]PX^_][^\x07\x1b\x9c]*(?:\x07|\x1b\\\\|\x9c)?"  # window titles, links, clipboard
    f"|[\x00-\x08\x0b-\x1f\x7f-\x9f{TURNS}]"
)
NEAREST = str.maketrans(
    {
        "φ": "phi",
        "ψ": "psi",
        "→": "->",
        "−": "-",
        "–": "-",
        "×": "x",
        "·": "-",
        "≥": ">=",
        "≤": "<=",
        "…": "...",
    }
)


def shown(text: str) -> str:
    """A text, of one line or more, as it may be printed."""
    return STEERING.sub("", text).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """A text as one line: a name may have line breaks in it, a message may not."""
    return " ".join(shown(text).split())


def shown_json(text: str) -> str:
    """A JSON text as it may be printed: the same value, with what would steer a terminal spelled
    out, or everything beyond ASCII where the stream may not know it."""
    utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")
    spelled = f"[\x7f-\x9f{TURNS}]" if utf8 else "[^\x00-\x7e]"

    def escaped(match: re.Match[str]) -> str:
        return json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f")

    return re.sub(spelled, escaped, text)


def say(text: str = "", *, err: bool = False) -> None:
    """Print a line or lines; dropped where the reader has gone (`butfor … | head -1`)."""
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    try:
        stream.write(f"{shown(text)}\n")
        stream.flush()
    except (OSError, ValueError) as error:
        # Whatever is still to come, also at the end of the process, goes nowhere.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
        reader_gone = (errno.EPIPE, errno.EBADF, errno.EINVAL)
        if isinstance(error, OSError) and error.errno not in reader_gone:
            raise


def say_wrapped(line: str, *, err: bool = False) -> None:
    """Print one line, broken between words where a terminal is too narrow for it."""
    width = width_of(sys.stderr if err else sys.stdout)
    text = one_line(line)
    if width is not None:
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    say(text, err=err)


def width_of(stream: TextIO | None) -> int | None:
    """Columns of the terminal behind a stream; None where there is none."""
    try:
        if stream and stream.isatty():
            return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        pass
    return None


def _nearest(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    nearest = error.object[error.start : error.end].translate(NEAREST)
    return nearest.encode("ascii", "replace").decode(), error.end


def prepare() -> None:
    """Make standard output and error take whatever is printed."""
    codecs.register_error("nearest", _nearest)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="nearest")
