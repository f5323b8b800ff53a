"""The report in a real browser: offline, without errors, sortable and legible at any width."""

import gzip
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from ndflow.doubt import Doubt
from ndflow.figures.densities import DensityPanel, density_figure
from ndflow.figures.export import svg
from ndflow.figures.style import colours
from ndflow.reporting.content import Headline, Numbers, Page, Picture, ScanEntry, SiteEntry, Views
from ndflow.reporting.page import render
from ndflow.reporting.viewer import niivue

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None, reason="needs chromium and chromedriver"
)
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
SITES = ("Hamburg", "<script>alert(1)</script>", 'King\'s "3T"')
LEFT = (0.08, 0.005, None, 0.2, 0.1, 0.03, 0.011, 0.0004)  # W1 of each scan


def volume(gain: float, shift: float) -> bytes:
    """Return a ball with an off-centre hole; in its own window it looks the same at any gain."""
    at = np.indices((24, 28, 24)) - np.array([12, 14, 12])[:, None, None, None]
    ball = np.where((at**2).sum(0) < 190, 100.0 + 4 * at[0] + 2 * at[1] + at[2], 0)
    ball[8:11, 10:14, 13:17] = 40
    scaled = np.where(ball > 0, gain * ball + shift, 0)
    image = nib.Nifti1Image(scaled.astype(np.uint8), np.diag([4, 4, 4, 1]))
    return gzip.compress(image.to_bytes(), mtime=0)


def study() -> Page:
    x = np.linspace(-3, 3, 60)
    lines = {site: [np.exp(-((x - 0.2 * i) ** 2))] for i, site in enumerate(SITES)}
    picture = Picture(
        svg(density_figure([DensityPanel("as scanned", x, lines)] * 3)), "densities", "Below."
    )
    views = Views(volume(1, 0), volume(0.5, 120), Picture(picture.svg, "slices", "Slices."))
    scans = [
        ScanEntry(
            f"sub-{i + 1}",
            SITES[i % 3],
            [left, 150_000 + i],
            [Doubt("steep map", "The map is steep.", "look at the mask")] if i == 4 else [],
            picture,
            views if i < 3 else None,
        )
        for i, left in enumerate(LEFT)
    ]
    return Page(
        title="A study of three sites",
        facts=[("Command", "ndflow cohort " + "a_rather_long_name_without_a_space" * 3)],
        failures=[("sub-9", "The mask is empty.", "Give another mask.")],
        headline=Headline("Alike.", [("before", "0.41 sd"), ("after", "0.05 sd")], picture),
        populations=picture,
        sites=[SiteEntry(s, 3, colours(SITES)[s], picture, "Near.") for s in SITES],
        columns=["W1 left", "Voxels"],
        scans=scans,
        tables=[Numbers("Tissues", "Note.", ["Tissue", *"abcdefghij"], [["GM", *"0123456789"]])],
        pictures=[picture],
        methods="Intensities were normalised. " * 20,
        citation="@misc{x, title = {" + "A long line of BibTeX " * 6 + "}}",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "report.html").write_text(render(study(), bundle=niivue()), encoding="utf-8")
    (folder / "still.html").write_text(render(study()), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(folder) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, folder):
    """Open a page; after the test, it must have logged no errors and loaded nothing."""

    def open_page(name="report.html", width=1400, scheme="light"):
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": key, "value": value} for key, value in features.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        address = (folder / name).as_uri()
        browser.get(address)  # may return before the page is complete on a busy machine
        whole = "return document.readyState == 'complete' && location.href == arguments[0]"
        wait(browser, lambda b: b.execute_script(whole, address))
        return browser

    browser.get("about:blank")
    browser.get_log("browser"), browser.get_log("performance")  # not of our page
    yield open_page
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    asked = [
        event["params"].get("request", event["params"])["url"]
        for event in events
        if event["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated")
    ]
    asked = [url for url in asked if not url.startswith("chrome")]  # the browser's own new tab
    assert any(url.startswith("file:") for url in asked)
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def shown(browser) -> list[str]:
    rows = browser.find_elements(By.CSS_SELECTOR, "#table tbody > tr:first-child > th")
    return [row.text for row in rows if row.is_displayed()]


def pixels(element) -> np.ndarray:
    picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
    return np.asarray(picture, np.int16)


def inner(canvas) -> np.ndarray:
    return pixels(canvas)[10:-10, 10:-10]  # without the round corners and the mark of the focus


def wait(browser, condition):
    return WebDriverWait(browser, 15).until(condition)


def test_a_hostile_name_is_read_as_a_name(opened):
    browser = opened()
    headings = [h.text for h in browser.find_elements(By.CSS_SELECTOR, "#sites h3")]
    assert headings == [f"{site} 3 scans" for site in SITES]


def test_the_table_sorts_by_any_column_both_ways_with_unknown_values_last(opened):
    browser = opened()
    head = browser.find_elements(By.CSS_SELECTOR, "#table thead th")[2]
    names = [f"sub-{i + 1}" for i in range(8)]
    order = sorted((v, n) for v, n in zip(LEFT, names, strict=True) if v is not None)
    head.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown(browser) == [*(name for _, name in order), "sub-3"]
    head.find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert shown(browser) == [*(name for _, name in reversed(order)), "sub-3"]
    first = browser.find_element(By.CSS_SELECTOR, "#table thead th")
    first.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") is None
    assert shown(browser) == names


def test_the_table_filters_by_words_by_site_and_by_flag(opened):
    browser = opened()
    box = browser.find_element(By.ID, "filter")
    box.send_keys("<SCRIPT> sub-5")
    assert shown(browser) == ["sub-5"]
    assert browser.find_element(By.ID, "count").text == "1 of 8 scans"
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.DELETE)
    browser.find_element(By.ID, "filter-site").send_keys("King")
    assert shown(browser) == ["sub-3", "sub-6"]
    browser.find_element(By.ID, "filter-flagged").click()
    assert shown(browser) == []


def test_rows_open_by_mouse_by_keyboard_and_by_the_link_of_a_flag(opened):
    browser = opened()
    pictures = browser.find_elements(By.CSS_SELECTOR, ".scan svg")
    assert len(pictures) == 8
    assert not any(picture.is_displayed() for picture in pictures)
    browser.find_element(By.CSS_SELECTOR, "#scan-1 th").click()
    browser.find_element(By.CSS_SELECTOR, "#scan-2 summary").send_keys(Keys.ENTER)
    browser.find_element(By.CSS_SELECTOR, ".flagged a").send_keys(Keys.ENTER)
    wait(browser, lambda _: pictures[4].is_displayed())  # links are followed in their own time
    assert [n for n in range(8) if pictures[n].is_displayed()] == [0, 1, 4]


def test_the_viewer_shows_both_volumes_and_moves_both_crosshairs(opened):
    if niivue() is None:
        pytest.skip("needs nilearn with NiiVue")
    browser = opened()
    browser.find_element(By.CSS_SELECTOR, "#scan-2 th").click()
    browser.find_element(By.CSS_SELECTOR, "#scan-2 .show").click()
    wait(browser, lambda b: b.find_element(By.ID, "view-state").text == "Showing sub-2.")
    assert not browser.find_element(By.ID, "slices").is_displayed()
    before, after = (browser.find_element(By.ID, name) for name in ("before", "after"))
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", before)
    first = inner(before)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 30
    assert (first.min(axis=2) > 250).mean() < 0.02  # the window leaves hardly any voxel white
    # One is the other, stretched and shifted: in their own windows they are the same picture.
    assert np.abs(first - inner(after)).max() <= 8
    move = webdriver.ActionChains(browser)
    move.move_to_element_with_offset(before, -150, -120).click().perform()
    wait(browser, lambda _: np.abs(inner(after) - first).max() > 100)
    clicked = inner(after)
    assert np.abs(inner(before) - clicked).max() <= 8
    after.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.PAGE_UP)
    wait(browser, lambda _: np.abs(inner(before) - clicked).max() > 100)
    assert np.abs(inner(before) - inner(after)).max() <= 8


@pytest.mark.parametrize("lost", ["bundle", "WebGL"])
def test_slices_stand_in_for_the_viewer_where_it_cannot_run(opened, lost):
    browser = opened("still.html" if lost == "bundle" else "report.html")
    if lost == "WebGL":
        source = "HTMLCanvasElement.prototype.getContext = () => null"
        command = "Page.addScriptToEvaluateOnNewDocument"
        script = browser.execute_cdp_cmd(command, {"source": source})
        browser.refresh()
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)
    browser.find_element(By.CSS_SELECTOR, "#scan-3 th").click()
    browser.find_element(By.CSS_SELECTOR, "#scan-3 .show").click()
    wait(browser, lambda b: b.find_element(By.ID, "slices-3").is_displayed())
    assert not browser.find_element(By.ID, "slices-1").is_displayed()
    assert not browser.find_element(By.ID, "canvases").is_displayed()
    assert not browser.find_element(By.CSS_SELECTOR, "#view button").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1400])
def test_the_page_fits_any_width_in_both_colour_schemes(opened, folder, width, scheme):
    browser = opened(width=width, scheme=scheme)
    for details in browser.find_elements(By.CSS_SELECTOR, "details"):
        browser.execute_script("arguments[0].open = true", details)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    browser.save_screenshot(str(folder / f"{width}-{scheme}.png"))
    # The corner is paper, the sheet of a drawing is white in both schemes.
    paper = pixels(browser.find_element(By.TAG_NAME, "h1"))[0, -1].mean()
    assert paper > 240 if scheme == "light" else paper < 40
    assert pixels(browser.find_element(By.CSS_SELECTOR, ".sheet"))[8, 8].min() == 255


def test_a_printed_page_shows_everything_and_no_controls(opened):
    browser = opened(width=700)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    visible = "return [...document.querySelectorAll('.scan svg')].map(e => e.checkVisibility())"
    assert all(browser.execute_script(visible))
    buttons = browser.find_elements(By.CSS_SELECTOR, "main button:not(thead *), nav, form")
    assert not any(button.is_displayed() for button in buttons)
    assert browser.execute_script("return document.documentElement.scrollWidth") == 700
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
