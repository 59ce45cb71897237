"""The documents: links lead somewhere, every page is in the site's table of contents, every public
name in the reference and described, README is short, and what documents and docstrings show runs
and prints what they say."""

import doctest
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import butfor

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted(path for path in (DOCS / "examples").glob("*.py") if path.name != "build.py")
PAGES = [
    *sorted(DOCS.glob("*.md")),
    *EXAMPLES,
    *(ROOT / f"{name}.md" for name in ("README", "CODE_OF_CONDUCT", "CONTRIBUTING", "SECURITY")),
]


def text_of(page: Path) -> str:
    """A page without its blocks of code; of an example, the text in its comments."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        return "\n".join(
            line.removeprefix("#").removeprefix(" ")
            for line in text.splitlines()
            if line.startswith("#")
        )
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def test_every_link_leads_somewhere():
    for page in PAGES:
        for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
            if re.match(r"https?://", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if target.parent.name == "examples" and target.suffix == ".md":  # made from its script
                target = target.with_suffix(".py")
            assert target.exists(), (page, link)
            if anchor:  # what a heading is called on the site and on GitHub alike
                headings = re.findall(r"^#+ (.*)$", text_of(target), re.MULTILINE)
                names = [
                    re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")
                    for heading in headings
                ]
                assert anchor in names, (page, link)
            assert DOCS not in page.parents or DOCS in target.parents, (
                f"{page}: {link} leads out of the site"
            )


def test_the_site_has_every_page_the_reference_every_public_name_and_readme_is_short():
    listed = re.findall(
        r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    pages = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}
    assert sorted(listed) == sorted(
        [*pages, *(f"examples/{example.stem}.md" for example in EXAMPLES)]
    )
    assert sorted(
        re.findall(r"^::: butfor\.(\w+)$", pages["reference.md"], re.MULTILINE)
    ) == sorted(butfor.__all__)
    assert [name for name, text in pages.items() if re.search(r"version 0\.[0-3]\b", text)] == []
    assert len(README.splitlines()) <= 100
    assert any("docs/pictures/report.png" in line for line in README.splitlines()[:18])
    for example in EXAMPLES:
        script = example.read_text(encoding="utf-8")
        compile(script, example, "exec")
        assert script.startswith("# %% [markdown]\n# # "), example


TINY = """\
# %% [markdown]
# # Title

# %%
from pathlib import Path

from butfor.report.charts import Drawing

print("printed")
1 + 1

# %% [console]
# echo made > here.txt
# cat here.txt

# %%
print(Path("here.txt").read_text())
Drawing(30, 20)
"""


def test_an_examples_page_holds_text_code_output_and_figures_and_what_fails_ends_the_build(
    tmp_path,
):
    spec = importlib.util.spec_from_file_location("build", DOCS / "examples" / "build.py")
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    (tmp_path / "tiny.py").write_text(TINY, encoding="utf-8")
    page = build.render(tmp_path / "tiny.py", tmp_path).read_text(encoding="utf-8")
    assert page.startswith("# Title\n\n```python\nfrom pathlib")
    assert "1 + 1\n```\n\n```text\nprinted\n2\n```\n" in page
    assert "```console\necho made > here.txt\ncat here.txt\n```\n\n```text\nmade\n```\n" in page
    (figure,) = re.findall(r"```text\nmade\n```\n\n!\[.*\]\((.*)\)", page)
    assert (tmp_path / figure).read_text(encoding="utf-8").startswith("<svg")
    (tmp_path / "bad.py").write_text(
        "# %% [console]\n# ls no-such-file\n# echo later\n", encoding="utf-8"
    )
    with pytest.raises(RuntimeError, match=r"(?s)ended with exit code 2:.*no-such-file"):
        build.render(tmp_path / "bad.py", tmp_path)


# --- README, CONTRIBUTING and docstrings ----------------------------------------------------------


def test_readmes_example_prints_the_find_that_is_shown(capsys):
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL).groups()
    names: dict = {}
    exec(code, names)
    assert names["verdict"].status == "found"
    assert names["audit"].learner_.name == "LogisticRegression"
    assert capsys.readouterr().out.split() == shown.split()


def test_the_parts_that_contributing_shows_work_in_an_audit(capsys):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names: dict = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), names)
    assert capsys.readouterr().out.count(" training labels (") == 3
    method = text[text.index("## The method") : text.index("## The rooms")]
    files = re.findall(r"`([\w/]+\.py)`", method)
    inside = [*(ROOT / "src" / "butfor").rglob("*.py")]
    assert len(files) > 6
    assert all(any(path.as_posix().endswith(f"/{name}") for path in inside) for name in files)
    for room in re.findall(r"^\| `(\w+)/`", text[text.index("## The rooms") :], re.MULTILINE):
        assert (ROOT / "src" / "butfor" / room / "__init__.py").exists()


def test_public_names_and_parameters_are_described():
    methods = [
        each
        for name, each in vars(butfor.LabelAudit).items()
        if not name.startswith("_") and callable(each)
    ]
    for subject in (butfor.LabelAudit, *methods):
        described = re.findall(r"^ *(\w[\w, ]*) : ", inspect.getdoc(subject) or "", re.MULTILINE)
        mentioned = {word for words in described for word in words.split(", ")}
        wanted = set(inspect.signature(subject).parameters) - {"self"}
        assert wanted <= mentioned or (len(wanted) == 1 and "Returns" in inspect.getdoc(subject)), (
            subject
        )
    assert [
        name
        for name in {*butfor.__all__} - {"DATASETS"}
        if not inspect.getdoc(getattr(butfor, name))
    ] == []


@pytest.mark.system
def test_the_examples_of_public_names_run():
    """Those of an audit's methods go on from that of the class, in the order of the file."""
    order = {f"LabelAudit.{name}": k for k, name in enumerate(vars(butfor.LabelAudit))}
    audit = doctest.DocTestFinder().find(butfor.LabelAudit, "LabelAudit")
    tests = sorted(
        (test for test in audit if test.examples), key=lambda test: order.get(test.name, -1)
    )
    assert len(tests) > 8
    for test in tests[1:]:
        test.globs = tests[0].globs
    for name in sorted(
        {*butfor.__all__} - {"LabelAudit", "errors", "rank", "rules", "search", "standard"}
    ):
        tests += doctest.DocTestFinder(recurse=False).find(getattr(butfor, name), name)
    for test in tests:
        said: list[str] = []
        result = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
        assert not result.failed, "".join(said)
