"""Shared subjects: small audits that many tests look at, fitted once per test process."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "OMP_WAIT_POLICY", "passive"
)  # read at import: threads that wait leave the cores to others

import hypothesis
import numpy as np
import pandas as pd
import pytest

import butfor
from butfor.result.verdict import Verdict
from recorded import audited, run

# The same examples on every run, so that a commit passes or fails; HYPOTHESIS_PROFILE=explore draws
# new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.register_profile("explore", derandomize=False, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--renew", action="store_true", help="write the approved texts of pages anew")


def pytest_configure() -> None:
    """A shell ignores Ctrl-C for what it starts in the background; tests that press it need it
    heard."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def fitted(
    name: str, rows: int | None = None, **settings: object
) -> tuple[butfor.LabelAudit, object]:
    """An audit of an embedded set (the first training `rows` of it) with its published settings,
    and the set."""
    data = butfor.load_dataset(name)
    setup = data.setup
    model = butfor.MLP(
        hidden=setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size
    )
    settings = {"budget": setup.budget, "members": 1, "fresh_seeds": 0} | settings
    audit = butfor.LabelAudit(
        model, encoder=butfor.TableEncoder("embed", setup.numeric), **settings
    )
    X, y = data.X_train.iloc[:rows], data.y_train.iloc[:rows]
    audit.fit(X, y, sensitive_features=data.sensitive, validation=(data.X_val, data.y_val))
    return audit, data


def press(number: int = signal.SIGINT) -> None:
    """Ctrl-C, or another signal, as this process gets it."""
    os.kill(os.getpid(), number)


def odd_table(rows: int = 2000, seed: int = 0) -> pd.DataFrame:
    """A table nobody tidied: odd names, a boolean label, a three-valued protected attribute."""
    rng = np.random.default_rng(seed)
    income = rng.normal(50, 15, rows).round(2)
    table = pd.DataFrame({"Income (k€), net": income})
    table["protected group?"] = group = rng.choice(
        ["αλφα", "b & c", "<none>"], rows, p=[0.5, 0.3, 0.2]
    )
    table["région"] = rng.choice(["north", "south"], rows)
    table["# debts"] = debts = rng.poisson(2, rows)
    score = (
        0.08 * (income - 50) - 0.6 * (debts - 2) + 0.5 * (group == "αλφα") + rng.normal(0, 1, rows)
    )
    return table.assign(member=rng.random(rows) > 0.5, granted=score > 0)


@pytest.fixture(scope="session")
def salary() -> tuple[butfor.LabelAudit, object]:
    return fitted("salary", strategy="exhaustive")


@pytest.fixture(scope="session")
def salary_population(salary) -> butfor.Population:
    audit, data = salary
    return audit.explain_all(data.X_test)


@pytest.fixture(scope="session")
def salary_file(tmp_path_factory) -> Path:
    """The record of an audit under fresh seeds."""
    out = tmp_path_factory.mktemp("salary")
    return audited(out, "salary", "--members", "1", "--fresh-seeds", "30", "--budget", "3")


@pytest.fixture(scope="session")
def german_file(tmp_path_factory) -> Path:
    """The record of an audit of a model without a seed, with labels to review."""
    out = tmp_path_factory.mktemp("german")
    return audited(out, "german", "--model", "logistic", "--budget", "6", "--cases", "0:40")


@pytest.fixture
def tasks(german_file, tmp_path, capsys) -> Path:
    """A folder for reviewers, of the German audit."""
    options = ("--labels", 30, "--random-state", 3, "--anyway")
    assert run(capsys, "review", german_file, "--out", tmp_path / "tasks", *options)[0] == 0
    return tmp_path / "tasks"


def changed(verdict, run=None, **changes):
    """A verdict with other measurements, or of another run."""
    return Verdict(replace(verdict.measured, **changes), run or verdict.run, verdict.fitted)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium with a profile of its own."""
    chromium = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(
            "no Chromium with chromedriver on this machine; install both to run the browser test"
        )
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="selenium is not installed: pip install --group test"
    )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "headless=new", "no-sandbox", "disable-gpu", "disable-quic", "disable-dev-shm-usage", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    chrome = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(executable_path=driver)
    )
    yield chrome
    chrome.quit()
