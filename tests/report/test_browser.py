"""Pages in a real browser: they fit every screen, the list of people works without a network,
nothing else runs."""

from dataclasses import replace

import pytest
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from butfor.result.population import Population
from conftest import changed

pytestmark = pytest.mark.system
CHART_TEXT = """return Math.min(...[...document.querySelectorAll("svg text")].filter(t => t.getClientRects().length)
  .map(t => parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width
            / t.ownerSVGElement.viewBox.baseVal.width))"""


def listed(browser):
    """The names in the list of people, as they are shown."""
    cells = (
        "return [...document.querySelectorAll('#people-list tbody th')].map(cell => "
        "cell.innerText.trim())"
    )
    return browser.execute_script(cells)


def test_pages_fit_every_screen_in_both_schemes(browser, audit, seeded, tmp_path):
    browser.get_log("browser")  # of other pages
    audit.to_html(tmp_path / "report.html")
    next(v for v in seeded if v.fresh and v.fresh.logits).to_html(tmp_path / "person.html")
    for width, scheme in ((390, "light"), (800, "dark"), (1280, "light"), (390, "dark")):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        for file in ("report.html", "person.html"):
            browser.get((tmp_path / file).as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            ground = browser.execute_script(
                "return getComputedStyle(document.documentElement).backgroundColor"
            )
            assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
            assert width > 390 or browser.execute_script(CHART_TEXT) >= 11
    long = "were given what they had asked for, without any condition"  # the charts keep their room
    audit.with_run(names=replace(audit.run.names, labels={"yes": long})).to_html(
        tmp_path / "long.html"
    )
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size | {"width": 1280})
    browser.get((tmp_path / "long.html").as_uri())
    marks = (
        "return Math.min(...[...document.querySelectorAll('.rates td.mark')].map(mark => "
        "mark.clientWidth))"
    )
    assert browser.execute_script(marks) > 150
    assert browser.get_log("browser") == []


def test_the_list_of_people_without_a_network_and_nothing_that_a_table_smuggles_in(
    browser, seeded, tmp_path
):
    evil = "<img src=x onerror=document.title='run'><script>document.title='run'</script>"
    people = [changed(v, group=evil if k % 2 else "b") for k, v in enumerate(seeded)]
    gone = {"left_out": "rule", "flip_set": (), "fresh": None}
    people += [changed(v, case=1000 + v.case, row=f"B-{v.row}", **gone) for v in seeded]
    many = Population(people, seeded.run)
    text = many.to_html()
    # Even where a value slipped through unescaped, the page's policy would not let it run.
    (tmp_path / "report.html").write_text(text.replace("<h1>", f"<h1>{evil}", 1), encoding="utf-8")
    away = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.enable", {})
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", away)
    try:
        browser.get((tmp_path / "report.html").as_uri())
        assert browser.title != "run"
        assert any(
            "Content Security Policy" in line["message"] for line in browser.get_log("browser")
        )
        assert (
            browser.execute_script("return document.querySelectorAll('#people-list img').length")
            == 0
        )
        everybody = listed(browser)
        first, rest = everybody[: len(seeded)], everybody[len(seeded) :]
        assert rest == [f"B-{name}" for name in map(str, (v.row for v in seeded))], (
            "who was not audited comes last"
        )
        Select(browser.find_element("name", "column-4")).select_by_visible_text("● solid")
        assert listed(browser) == first[:1], "solid comes first"
        browser.find_element("css selector", "#people-tools [type=reset]").click()
        assert listed(browser) == everybody
        heading = browser.find_element("css selector", "#people-list thead th")
        for order in (sorted(everybody), sorted(everybody, reverse=True)):
            heading.find_element("tag name", "button").send_keys("\n")  # by keyboard
            assert listed(browser) == order
        assert heading.get_attribute("aria-sort") == "descending"
        browser.find_element("name", "id").send_keys("b-app")
        assert sorted(listed(browser)) == sorted(rest)
        assert not browser.find_elements("css selector", "#people-list tbody a"), (
            "there is no more about them"
        )
        browser.find_element("css selector", "#people-tools [type=reset]").click()
        browser.find_element("css selector", "#people-list tbody a").click()
        wait = WebDriverWait(browser, 30)
        wait.until(lambda b: b.current_url.rpartition("#")[2].startswith("case-"))
        browser.find_element("css selector", "#answer a[href='#next']").click()
        # What is folded opens.
        wait.until(lambda b: b.execute_script("return document.querySelector('#next:target')"))
        top = browser.execute_script(
            "return document.getElementById('next').getBoundingClientRect().top"
        )
        assert -1 <= top < browser.execute_script("return innerHeight")
        resources = browser.execute_script(
            "return performance.getEntriesByType('resource').map(r => r.name)"
        )
        assert not [name for name in resources if not name.endswith("/x")], (
            "x is what was smuggled in"
        )
    finally:
        browser.execute_cdp_cmd("Network.emulateNetworkConditions", away | {"offline": False})
        browser.execute_cdp_cmd("Network.disable", {})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get((tmp_path / "report.html").as_uri())
        assert len(listed(browser)) == len(many), "without scripts everything is there to read"
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
