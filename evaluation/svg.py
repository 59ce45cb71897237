"""A matplotlib figure as inline SVG: small, themed by the page's CSS variables, its ids its own.

matplotlib writes for standalone files: ids such as `axes_1` that repeat in every figure, a style on every
mark, five decimals. Inside one HTML page with many charts that collides and adds up, so the tree is
rewritten: ids dropped or renamed, colours replaced by variables, shared styles moved to their group, and all of them
written as attributes.
"""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from butfor.report.charts import LIGHT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def inline_svg(figure: Figure, title: str, name: str) -> str:
    """The figure as an ``<svg>`` element with `title` for screen readers.

    `name` starts its ids: two figures in one document need different names."""
    root = ET.fromstring(_rendered(figure, name))
    _drop_namespaces(root)
    for tag in ("metadata", "style"):
        for parent in root.iter():
            for child in parent.findall(tag):
                parent.remove(child)
    _own_ids(root, name)
    for element in root.iter():
        _tidy(element)
    _hoist(root)
    _flatten(root)
    _as_attributes(root)
    width, height = (round(inches * 72) for inches in figure.get_size_inches())
    root.attrib.clear()
    root.attrib.update({"viewBox": f"0 0 {width} {height}", "width": str(width), "role": "img"})
    heading = ET.Element("title")
    heading.text = title
    root.insert(0, heading)
    return ET.tostring(root, encoding="unicode", short_empty_elements=True).replace(" />", "/>")


def _rendered(figure: Figure, name: str) -> str:
    import matplotlib as mpl

    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}), warnings.catch_warnings():
        # The browser draws the text with its own fonts; what matplotlib's font lacks does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(out, format="svg", transparent=True, metadata=nothing, dpi=72)
    return out.getvalue()


def _drop_namespaces(root: ET.Element) -> None:
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {key.rpartition("}")[2]: value for key, value in element.attrib.items()}
        if not (element.text or "").strip():
            element.text = None
        element.tail = None


def _own_ids(root: ET.Element, name: str) -> None:
    """Keep only ids that something refers to, renamed to `name` and a number."""
    text = ET.tostring(root, encoding="unicode")
    used = dict.fromkeys(re.findall(r'(?:url\(#|href="#)([^")]+)', text))
    new = {old: f"{name}-{number}" for number, old in enumerate(used)}
    for element in root.iter():
        if "id" in element.attrib:
            old = element.attrib.pop("id")
            if old in new:
                element.set("id", new[old])
        if element.get("href", "#")[1:] in new:
            element.set("href", "#" + new[element.attrib["href"][1:]])
        clip = re.fullmatch(r"url\(#(.+)\)", element.get("clip-path", ""))
        if clip:
            element.set("clip-path", f"url(#{new[clip[1]]})")


def _tidy(element: ET.Element) -> None:
    for key in ("d", "x", "y"):
        if key in element.attrib:
            element.set(key, re.sub(r" ?([a-zA-Z]) ?", r"\1", _rounded(element.attrib[key])))
    turn = element.attrib.get("transform", "")
    if turn:
        turn = _rounded(re.sub(r"rotate\(-?0(?: [^)]*)?\)", "", turn).strip())
        element.set("transform", turn) if turn else element.attrib.pop("transform")
    if "style" in element.attrib:
        style = _styled(element.attrib["style"])
        element.set("style", style) if style else element.attrib.pop("style")


def _as_attributes(root: ET.Element) -> None:
    """Styles as attributes of their own: a page's policy allows no style but its one sheet."""
    for element in root.iter():
        for part in filter(None, element.attrib.pop("style", "").split(";")):
            key, value = part.split(":", 1)
            element.set(key, value)


def _rounded(numbers: str) -> str:
    numbers = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}".removesuffix(".0"), numbers)
    return " ".join(numbers.split())


def _styled(style: str) -> str:
    parts = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
    parts = {key.strip(): value.strip() for key, value in parts.items()}
    font = re.match(r"(.*?)([\d.]+px)", parts.pop("font", ""))  # matplotlib before 3.10 writes the shorthand
    if font:
        parts["font-size"] = font[2]
        parts |= {"font-weight": "700"} if re.search(r"bold|700", font[1]) else {}
    for needless in ("font-family", "stroke-linejoin", "stroke-linecap", "stroke-miterlimit"):
        parts.pop(needless, None)
    return ";".join(f"{key}:{_themed(value)}" for key, value in parts.items())


def _themed(value: str) -> str:
    for name, colour in LIGHT.items():
        if value.lower() == colour:
            return f"var(--bf-{name})"
    return _rounded(value)


def _hoist(element: ET.Element) -> None:
    """Where all children of a group have one style, the group has it instead."""
    for child in element:
        _hoist(child)
    styles = {child.get("style") for child in element if child.tag != "defs"}
    if element.tag == "g" and "style" not in element.attrib and len(styles) == 1 and None not in styles:
        element.set("style", str(styles.pop()))
        for child in element:
            child.attrib.pop("style", None)


def _flatten(element: ET.Element) -> None:
    """Groups that say nothing are replaced by what they hold, neighbours of one style joined, invisible
    backgrounds dropped."""
    kept: list[ET.Element] = []
    for child in list(element):
        _flatten(child)
        element.remove(child)
        if (child.tag in ("g", "defs") and not len(child)) or child.get("style") == "fill:none":
            continue
        children = list(child) if child.tag == "g" and not child.attrib else [child]
        for one in children:
            if one.tag == "g" and kept and kept[-1].tag == "g" and kept[-1].attrib == one.attrib:
                kept[-1].extend(one)
            else:
                kept.append(one)
    element.extend(kept)
