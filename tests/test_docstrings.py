"""The docstrings of public names: every parameter is described, and every example runs."""

import doctest
import inspect
import re

import pytest

import butfor

METHODS = [
    name for name in vars(butfor.LabelAudit) if not name.startswith("_") and callable(getattr(butfor.LabelAudit, name))
]


def test_every_parameter_is_described():
    for subject in (butfor.LabelAudit, *(getattr(butfor.LabelAudit, name) for name in METHODS)):
        described = re.findall(r"^ *(\w[\w, ]*) : ", inspect.getdoc(subject) or "", re.MULTILINE)
        mentioned = {word for words in described for word in words.split(", ")}
        wanted = set(inspect.signature(subject).parameters) - {"self"}
        assert wanted <= mentioned or (len(wanted) == 1 and "Returns" in inspect.getdoc(subject)), subject


@pytest.mark.system
def test_the_examples_of_an_audit_run(all_draws):
    """Those of the methods go on from that of the class, in the order of the file."""
    found = [
        test for test in doctest.DocTestFinder(recurse=True).find(butfor.LabelAudit, "LabelAudit") if test.examples
    ]
    shared: dict[str, object] = {}
    order = {f"LabelAudit.{name}": k for k, name in enumerate(vars(butfor.LabelAudit))}
    assert len(found) > 8
    for test in sorted(found, key=lambda test: order.get(test.name, -1)):
        test.globs = shared
        said: list[str] = []
        result = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
        assert not result.failed, "".join(said)


@pytest.mark.parametrize(
    "name", sorted(set(butfor.__all__) - {"LabelAudit", "errors", "rank", "rules", "search", "standard"})
)
def test_public_names_are_described_and_their_examples_run(name):
    subject = getattr(butfor, name)
    if name != "DATASETS":
        assert inspect.getdoc(subject), name
    for test in doctest.DocTestFinder(recurse=False).find(subject, name):
        said: list[str] = []
        assert not doctest.DocTestRunner().run(test, out=said.append).failed, "".join(said)
