"""What is built installs into an empty environment and works there, with no more than its declared
dependencies."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from butfor import __version__

ROOT = Path(__file__).parents[1]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
INSTALL = "BUTFOR_INSTALL" in os.environ
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
pytestmark = pytest.mark.system


def run(*command, cwd):
    """What a command prints and says, in an environment that knows nothing of this repository."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def build(folder, out, *targets):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", out, *targets], cwd=folder, check=True
    )


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source distribution."""
    out = tmp_path_factory.mktemp("dist")
    build(ROOT, out)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


def files_in(wheel):
    """Its files with their checksums; not the list of them."""
    with zipfile.ZipFile(wheel) as opened:
        return {
            file.filename: file.CRC
            for file in opened.infolist()
            if not file.filename.endswith("/RECORD")
        }


def test_the_wheel_holds_the_package_alone_with_its_data_and_an_index_takes_both(built):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *built], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr
    files = files_in(built[0])
    assert {name.partition("/")[0].partition("-")[0] for name in files} == {"butfor"}
    there = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src/butfor").rglob("*")
        if file.is_file()
    }
    assert {name for name in files if ".dist-info/" not in name} == {
        n for n in there if "__pycache__" not in n
    }


def test_the_source_distribution_holds_all_and_builds_the_same_wheel(built, tmp_path):
    with tarfile.open(built[1]) as opened:
        opened.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    wanted = {
        "src",
        "tests",
        "docs",
        "benchmarks",
        "evaluation",
        "Makefile",
        "constraints.txt",
        "README.md",
        "LICENSE",
    }
    assert wanted <= {each.name for each in folder.iterdir()}
    build(folder, tmp_path, "-t", "wheel")
    assert files_in(next(tmp_path.glob("*.whl"))) == files_in(built[0])


def test_one_version_is_released():
    """Named alike by the package, the citation and the changelog, with one date; between releases
    the changelog begins with what the package's development version will be."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    headings = re.findall("^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    version, development = re.fullmatch(r"(\d+\.\d+\.\d+)(\.dev0)?", __version__).groups()
    if development:
        assert headings.pop(0) == f"{version} (unreleased)"
    else:
        assert cited["version"] == version
    assert headings[0] == f"{cited['version']} ({cited['date-released']})"


def test_the_workflow_publishes_what_was_tested():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/')"
    assert set(jobs["publish"]["needs"]) == set(jobs) - {"publish"}
    assert (
        jobs["test"]["strategy"]["matrix"]["python"]
        == jobs["install"]["strategy"]["matrix"]["python"]
        == PYTHONS
    )


def lend(requirements, site, lent):
    """Link what these requirements need, and what that needs, from the present environment."""
    for requirement in map(Requirement, requirements or ()):
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and requirement.name not in lent:
            lent.add(requirement.name)
            distribution = metadata.distribution(requirement.name)
            for name in {file.parts[0] for file in distribution.files or ()} - {
                "..",
                "__pycache__",
            }:
                if not (site / name).exists():
                    (site / name).symlink_to(distribution.locate_file(name))
            lend(distribution.requires, site, lent)


USED = """
from butfor.cli import main
audit = "audit german --cases 0:20 --quiet"
for asked, code in {"standard german --draws 5": 0, f"{audit} --model logistic --out page": 0, audit: 2}.items():
    assert main(asked.split()) == code
"""


@pytest.mark.parametrize("version", PYTHONS)
def test_it_installs_and_works_without_torch(built, tmp_path, version):
    """With the dependencies that it declares, lent by the present environment. The compiled ones
    serve one Python only: on the others the command starts. BUTFOR_INSTALL=1 installs them instead,
    in minutes, as the workflow does."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for python in (
        shutil.which(f"python{version}"),
        *pyenv.glob(f"versions/{version}.*/bin/python"),
    ):
        if (
            python
            and subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0
        ):
            break
    else:
        pytest.skip(f"python{version} is not installed here")
    run(python, "-m", "venv", "--without-pip", tmp_path / "env", cwd=tmp_path)
    python, command = tmp_path / "env/bin/python", tmp_path / "env/bin/butfor"
    site = next(tmp_path.glob("env/lib/python*/site-packages"))
    install = (*PIP, "--python", python, "install", built[0])
    if INSTALL:
        run(*install, "-c", ROOT / "constraints.txt", cwd=tmp_path)
    else:
        run(*install, "--no-index", "--no-deps", "--no-compile", cwd=tmp_path)
        lend(metadata.Distribution.at(next(site.glob("butfor-*.dist-info"))).requires, site, set())
    run(python, "-m", "compileall", "-q", site / "butfor", cwd=tmp_path)
    where, _ = run(
        python, "-W", "error", "-c", "import butfor; print(butfor.__file__)", cwd=tmp_path
    )
    assert Path(where.strip()) == site / "butfor/__init__.py"
    assert run(command, "--version", cwd=tmp_path) == (f"butfor, version {__version__}\n", "")
    if INSTALL or version == "{}.{}".format(*sys.version_info):
        printed, refused = run(python, "-c", USED, cwd=tmp_path)
        assert "comparable people" in printed
        assert "audited decisions hinge on" in printed
        assert refused.endswith(
            'Error: The network needs torch, which is not installed: pip install "butfor[net]".\n'
        )
        assert (tmp_path / "page/report.html").stat().st_size > 10_000
