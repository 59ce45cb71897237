"""The reviewer's page in a real browser: answer by key and by button, come back, save, and close
the loop."""

import pandas as pd
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.wait import WebDriverWait

from butfor.review.tasks import question, reviewer_page
from recorded import answered, run

pytestmark = pytest.mark.system

LEFT, RIGHT, ENTER, TAB = "\ue012", "\ue014", "\ue007", "\ue004"
EVIL = "</script><img src=x onerror=document.title='run'>"


def small(folder, name, ids="abcd", labels=("no", "yes")):
    frame = pd.DataFrame(
        {"income": [10, 20, 30, 40], "note": ["", None, EVIL, "long " * 2000]}, index=list(ids)
    )
    path = folder / name
    path.write_text(reviewer_page(frame, question("deny", labels), labels), encoding="utf-8")
    return path.as_uri()


def press(browser, keys):
    ActionChains(browser).send_keys(keys).perform()


def text(browser, name):
    return browser.find_element("id", name).text


def values(browser):
    cells = (
        "return [...document.querySelectorAll('#row tbody tr')].map(row => "
        "[...row.cells].map(c => c.innerText))"
    )
    return dict(browser.execute_script(cells))


def save(browser, folder):
    """The file that "Save answers" writes."""
    folder.mkdir()
    browser.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    browser.find_element("id", "save").click()
    file = folder / "answers.csv"
    WebDriverWait(browser, 30).until(lambda _: file.exists() and file.stat().st_size)
    return file


@pytest.fixture(autouse=True)
def silent(browser):
    """No page asks the network for anything, and none complains."""
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.get_log("browser")  # of other pages
    yield
    assert (
        browser.execute_script("return performance.getEntriesByType('resource').map(r => r.name)")
        == []
    )
    assert browser.get_log("browser") == []
    browser.execute_script("localStorage.clear()")


def test_a_review_from_the_first_answer_to_the_evidence(
    browser, german_file, tasks, tmp_path, capsys
):
    wanted = {str(number): label for number, label in answered(tasks, 20).items()}
    ids, keys = list(wanted), {"bad credit": "1", "good credit": "2", "cannot tell": "0"}
    total, key = len(ids), tmp_path / "tasks.key.json"
    wanted[ids[7]] = "cannot tell"
    shown = pd.read_csv(tasks / "tasks.csv", dtype=str, keep_default_na=False)
    browser.get((tasks / "review.html").as_uri())
    assert text(browser, "count") == f"0 of {total} answered"
    assert values(browser) == shown.iloc[0].drop(["id", "label"]).to_dict()
    press(browser, "".join(keys[wanted[number]] for number in ids[:20]))
    assert text(browser, "status") == f"Task 20: {wanted[ids[19]]}."
    browser.refresh()
    assert text(browser, "place") == f"Task 21 of {total}"
    assert values(browser) == shown.iloc[20].drop(["id", "label"]).to_dict()
    for number in ids[20:25]:
        browser.find_element("xpath", f"//*[@id='choices']//span[.='{wanted[number]}']").click()
    press(browser, LEFT * 2)
    chosen = browser.find_elements("css selector", "#choices [aria-pressed=true] span")
    assert [button.text for button in chosen] == [wanted[ids[23]]]
    press(browser, "0")  # and back to what is open
    assert text(browser, "place") == f"Task 26 of {total}"
    press(browser, LEFT * 2 + keys[wanted[ids[23]]])
    half = save(browser, tmp_path / "half")
    assert f"{total - 25} of {total} tasks are still open" in text(browser, "status")
    code, _, err = run(capsys, "review", german_file, "--answers", half, "--key", key)
    assert (code, f"{total - 25} of {total} tasks have no answer" in err) == (2, True)
    press(
        browser, RIGHT * (total - 26) + keys[wanted[ids[-1]]]
    )  # the last first, then what is open from the start
    assert text(browser, "place") == f"Task 26 of {total}"
    press(browser, "".join(keys[wanted[number]] for number in ids[25:-1]))
    whole = save(browser, tmp_path / "whole")
    assert "Every task has an answer." in text(browser, "status")
    assert pd.read_csv(whole, dtype=str).set_index("id")["label"].to_dict() == wanted
    code, out, err = run(capsys, "review", german_file, "--answers", whole, "--key", key)
    assert (code, "labels of sex = female" in out) == (0, True), err


def test_answers_survive_and_two_reviews_do_not_mix(browser, tmp_path):
    one, two = small(tmp_path, "one.html"), small(tmp_path, "two.html", "efgh")
    browser.get(one)
    press(browser, "12")
    browser.get(two)
    assert text(browser, "count") == "0 of 4 answered"
    press(browser, "0")
    first = browser.current_window_handle
    browser.get(one)
    browser.switch_to.new_window("tab")  # the same review twice: both know every answer
    browser.get(one)
    press(browser, "1")
    browser.close()
    browser.switch_to.window(first)
    for answer, count in (("dismiss", 3), ("accept", 0)):
        assert text(browser, "count") == "3 of 4 answered"
        browser.find_element("id", "delete").click()
        getattr(browser.switch_to.alert, answer)()
        assert text(browser, "count") == f"{count} of 4 answered"
    browser.get(two)
    assert text(browser, "count") == "1 of 4 answered"
    browser.execute_script("localStorage.setItem(Object.keys(localStorage)[0], '{nonsense')")
    browser.refresh()
    assert text(browser, "count") == "0 of 4 answered"
    refuse = (
        "Object.defineProperty(window, 'localStorage', {get() { throw new Error('refused'); }})"
    )
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": refuse})
    try:
        browser.get(one)
        assert "This browser cannot keep your answers" in text(browser, "kept")
        press(browser, "1201")
        assert pd.read_csv(save(browser, tmp_path / "saved"))["label"].tolist() == [
            "no",
            "yes",
            "cannot tell",
            "no",
        ]
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
        browser.get(one)


def test_it_fits_a_phone_answers_to_the_keyboard_and_runs_nothing_that_the_table_holds(
    browser, tmp_path
):
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    many, odd = tuple(f"{'x' * 60} {k}" for k in range(50)), (EVIL, 'a,"b";\nc', "=1+1")
    for scheme, labels in (("light", many), ("dark", odd)):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        browser.get(small(tmp_path, f"{scheme}.html", labels=labels))
        for note in ("(empty)", "(missing)", EVIL, "long"):
            assert values(browser)["note"].startswith(note)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= 400
            box = browser.find_element("css selector", "#row td").rect
            assert box["x"] + box["width"] <= 400
            press(browser, RIGHT)
        browser.execute_script("scrollTo(0, 1e6)")
        button = browser.find_element("id", "save").rect
        top = button["y"] - browser.execute_script("return scrollY")
        assert 0 <= top <= 800 - button["height"], "the answers stay in view"
        ground = browser.execute_script(
            "return getComputedStyle(document.documentElement).backgroundColor"
        )
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    browser.refresh()
    press(browser, TAB * 3 + ENTER)
    assert text(browser, "status") == "Task 1: =1+1."
    assert browser.switch_to.active_element.value_of_css_property("outline-style") == "solid"
    for keys in ("9", "x", "4"):  # no label has these
        press(browser, keys)
    for event in (
        "{key: '1', repeat: true, bubbles: true}",
        "{key: '1', ctrlKey: true, bubbles: true}",
    ):
        browser.execute_script(
            f"document.body.dispatchEvent(new KeyboardEvent('keydown', {event}))"
        )
    assert text(browser, "count") == "1 of 4 answered", "no answer by accident"
    french = "{key: '&', code: 'Digit1', bubbles: true}"
    browser.execute_script(f"document.body.dispatchEvent(new KeyboardEvent('keydown', {french}))")
    press(browser, "20")
    assert browser.title == "Review of labels"
    assert browser.find_elements("tag name", "img") == []
    saved = pd.read_csv(save(browser, tmp_path / "saved"), dtype=str, keep_default_na=False)
    assert saved["id"].tolist() == list("abcd")
    assert saved["label"].tolist() == ["'=1+1", *odd[:2], "cannot tell"], (
        "no spreadsheet calculates an answer"
    )
