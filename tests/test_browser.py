"""The population page in a real browser: sections, links, back links, and a silent console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from butfor.result.control import Collateral
from butfor.result.fresh import FreshSeeds
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION
from butfor.result.verdict import Verdict

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
RUN = {
    "butfor": "0.1.0",
    "label_names": ["no", "yes"],
    "phi": "everyone",
    "psi": "everything",
    "retrainings": 9,
    "members": 16,
    "fresh_seeds": 59,
    "seeded": True,
}
ARGUMENTS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def verdict(case: int, status: str) -> Verdict:
    found = status == "found"
    values = {"sex": ("f", "m")[case % 2], "income <€>": 1000 + case}
    flip = {"row": 7, "position": 7, "label_before": "no", "label_after": "yes"}
    return Verdict.from_dict(
        {
            "schema_version": SCHEMA_VERSION, "case": case, "row": case, "status": status, "prediction": "no",
            "counterfactual_prediction": "yes" if found else None, "logit": -0.5,
            "counterfactual_logit": 0.3 if found else None,
            "flips": [flip | {"values": values | {"sex": "d"}}] if found else [],
            "budget": 2, "attempts": 3, "confirmed": found, "rank": "combined", "protocol": "algorithm1",
            "closest_logit": -0.2, "flippable": 12, "training_rows": 90, "shared": False, "complete": True,
            "reason": "", "sensitive": "sex", "group": values["sex"], "person": values,
            "course": [[1, -0.4], [2, -0.2]], "run": RUN, "minimal": found, "first_size": 1,
            "alternatives": [[3], [4, 5]] if found else [],
            "fresh": FreshSeeds(59, 58, 9, 50, 1).to_dict() if found else None, "base": 9 / 59,
            "collateral": asdict(Collateral(29, 4, 0.7, 0.71)) if found else None,
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("no Chromium with chromedriver on this machine; install both to run the browser test")
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install butfor[test]")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    people = [verdict(k, ("not_found", "found", "not_eligible")[k % 3]) for k in range(30)]
    path = tmp_path_factory.mktemp("report") / "audit.html"
    Population(people, RUN).to_html(path)
    many = {f"column {k}": 0.1 - k / 50 for k in range(19)}
    pulls = (
        {"sex": -0.9, "income <€>": 0.3, "Income before tax, in the year of application": 0.8} | many | {"(bias)": 0.1}
    )
    replace(people[1], case=36, pulls=pulls).to_html(path.with_name("case-36.html"))
    return path


def in_view(browser: Any, anchor: str) -> bool:
    top = browser.execute_script(f"return document.getElementById('{anchor}').getBoundingClientRect().top")
    return -1 <= top < browser.execute_script("return innerHeight")


def assert_pulls_are_legible(browser: Any) -> None:
    """Every name and number of the chart of pulls lies inside it, and none on another of its column."""
    chart = "[...document.querySelectorAll('#logit .chart svg')].at(-1)"
    boxes = browser.execute_script(
        f"const inside = {chart}.getBoundingClientRect();"
        f"return [...{chart}.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect().toJSON()])"
        ".map(([text, b]) => [text, b.left - inside.left, b.right - inside.left, b.top, b.bottom, inside.width])"
    )
    assert {"sex = d", "sex = f", "sex = m"} & {text for text, *_ in boxes}
    assert "10 other columns" in {text for text, *_ in boxes}
    for text, left, right, *_, width in boxes:
        assert left >= 0, text
        assert right <= width, text
    for k, (one, left, right, top, bottom, _) in enumerate(boxes):
        for other, its_left, its_right, its_top, its_bottom, _ in boxes[k + 1 :]:
            apart = right <= its_left or its_right <= left or bottom <= its_top + 2 or its_bottom <= top + 2
            assert apart, (one, other)


@pytest.mark.xdist_group("browser")
def test_a_link_leads_to_the_person_and_back(browser, report):
    browser.get(report.as_uri())
    for part in ("answer", "groups", "difference", "chance", "budget", "keystones", "people", "case-1", "case-2"):
        assert browser.find_element("id", part).is_displayed()
    assert not in_view(browser, "case-25")
    browser.find_element("css selector", "#people a[href='#case-25']").click()
    assert browser.find_element("css selector", ":target").get_attribute("id") == "case-25"
    assert in_view(browser, "case-25")
    browser.find_element("css selector", "#case-25 a.back").click()
    assert browser.find_element("css selector", ":target").get_attribute("id") == "people"
    assert in_view(browser, "people")
    assert browser.get_log("browser") == []


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_every_screen_in_both_schemes(browser, report, width, scheme):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    for page in (report, report.with_name("case-36.html")):
        browser.get(page.as_uri())
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        ground = browser.execute_script("return getComputedStyle(document.documentElement).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    assert "36" in browser.find_element("tag name", "h1").text
    assert_pulls_are_legible(browser)
    assert browser.get_log("browser") == []
