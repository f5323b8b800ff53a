"""The report in a real browser: offline, without errors, sortable and legible at any width."""

import io
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from pages import CURVES, png
from PIL import Image

from ndflow.evaluation.summary import Section
from ndflow.figures.cohort import DensityPanel, density_figure
from ndflow.figures.style import colours, svg
from ndflow.image.preview import small_volume
from ndflow.reporting.content import (
    Column,
    Headline,
    Montage,
    Page,
    Picture,
    Preparation,
    PreparedPicture,
    ScanEntry,
    SiteEntry,
    Slices,
    Volumes,
)
from ndflow.reporting.montage import regreyed
from ndflow.reporting.page import niivue, render
from ndflow.values import Doubt

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
OWN, WIDE = ((100, 200), (0, 50)), ((0, 1000), (-200, 200))  # grey windows of scans
LOST = "figures/sub 8.png is not beside this page."
LEFT = (0.08, 0.005, None, 0.2, 0.1, 0.03, 0.011, 0.0004)  # W1 of each scan


def volume(gain: float, shift: float) -> bytes:
    """Return a ball with an off-centre hole; in its own window it looks the same at any gain."""
    at = np.indices((24, 28, 24)) - np.array([12, 14, 12])[:, None, None, None]
    ball = np.where((at**2).sum(0) < 190, 100.0 + 4 * at[0] + 2 * at[1] + at[2], np.nan)
    ball[8:11, 10:14, 13:17] = 40
    return small_volume(gain * ball + shift, (4, 4, 4))


def strip(number: int) -> np.ndarray:
    """Return slices of a scan, before above and after below: ramps of grey on black."""
    picture = np.zeros((80, 120))
    picture[4:36, 10:110] = np.linspace(1, 255, 100).round()
    picture[44:76, 10:110] = np.linspace(255, 1 + number, 100).round()
    return picture


@cache
def study() -> Page:
    x = np.linspace(-3, 3, 60)
    lines = {site: [np.exp(-((x - 0.2 * i) ** 2))] for i, site in enumerate(SITES)}
    picture = Picture(
        svg(density_figure([DensityPanel("as scanned", x, lines)] * 3)), "densities", "Below."
    )
    density = np.exp(-(x**2))
    curves = dict(
        zip(CURVES, (100 * x + 400, density, density, x, x / 2, x, density, density), strict=True)
    )
    grey = [png(np.full((60, 50), 80 * i)) for i in range(1, 4)]
    scans = [
        ScanEntry(
            f"sub-{i + 1}",
            SITES[i % 3],
            [left, 150_000 + i],
            [Doubt("noise amplified", "The map is steep.", "look at the mask")] if i == 4 else [],
            grey[i % 3],
            Slices(
                f"figures/sub {i + 1}.png",
                png(strip(i)) if i < 3 else None,
                *(120, 40),
                *(WIDE if i == 4 else OWN),
            ),
            curves,
            Volumes(volume(1, 0), volume(0.5, 120)) if i < 3 else None,
            ["It was matched to a reference."],
        )
        for i, left in enumerate(LEFT)
    ]
    return Page(
        title="A study of three sites",
        date="17 November 2026",
        headline=Headline("Alike.", [("", "GM"), ("before", "8 %"), ("after", "2 %")], "Apart."),
        montage=Montage(SITES, ["sub-1", "sub-2", "sub-3"], grey, grey, "One slice of each."),
        failures=[("sub-9", "The mask is empty.", "Give another mask.")],
        populations=[picture] * 3,
        sites=[SiteEntry(s, 3, colours(SITES)[s]) for s in SITES],
        columns=[
            Column("W1 left", "What remains of the distance.", shown=True),
            Column("Voxels", "How many were used."),
        ],
        scans=scans,
        windows=((50, 250), (-25, 75)),
        verdicts=[("flow, compared with z-scoring", [("What it cost", ["Little."])])],
        tables=[
            Section(
                "tissue", "Tissues", "Note.", ["Tissue", *"abcdefghij"], [["GM", *"0123456789"]]
            )
        ],
        pictures=[picture],
        visits=Headline(
            "Two people were scanned twice.",
            [
                ("Person", "Site", "First scan", "Later scan", *"CGW"),
                *[["a_long_name" * 3] * 7] * 13,
            ],
        ),
        methods="Intensities were normalised. " * 20,
        citation="@misc{x, title = {" + "A long line of BibTeX " * 6 + "}}",
        facts=[("Command", "ndflow cohort " + "a_rather_long_name_without_a_space" * 3)],
        study="made up",
    )


def of_prepared_scans(name: str = "") -> Page:
    """Return the page with pictures of the preparation, and with an addition to all names."""
    page = study()
    scans = [
        replace(
            scan,
            name=f"{scan.name}{name}",
            site=f"{scan.site}{name}",
            flags=[Doubt(f"unlike{name}", "It is unlike.", "look")] if i == 0 else [],
            prepared=PreparedPicture(
                f"figures/sub {i + 1}.png", png(strip(i)) if i < 3 else None, 120, 80
            ),
        )
        for i, scan in enumerate(page.scans[:7])
    ]
    return replace(
        page,
        title=f"{page.title}{name}",
        montage=page.montage._replace(sites=[f"{site}{name}" for site in SITES]),
        sites=[replace(site, name=f"{site.name}{name}") for site in page.sites],
        scans=scans,
        preparation=Preparation(["Done."], [("mask", "#56B4E9"), ("WM", "#D55E00")]),
    )


def of_one_scan() -> Page:
    return Page("sub-2", "", Headline("One scan."), scans=[replace(study().scans[1], cells=[])])


PAGES = {
    "prepared": of_prepared_scans,
    "long": lambda: of_prepared_scans("a_rather_long_name_without_a_space" * 3),
    "one": of_one_scan,
    "still": study,  # without the bundle of the viewer
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    (folder / "report.html").write_text(render(study(), bundle=niivue()), encoding="utf-8")
    for name, page in PAGES.items():
        (folder / f"{name}.html").write_text(render(page()), encoding="utf-8")
    (folder / "figures").mkdir()
    for i in range(3, 7):  # those of the last scan are lost
        (folder / "figures" / f"sub {i + 1}.png").write_bytes(png(strip(i)))
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

    def open_page(name="report.html", width=1400, scheme="light", fresh=True):
        features = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": key, "value": value} for key, value in features.items()]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        load(browser, (folder / name).as_uri())
        browser.execute_script("document.querySelector('#scans > details').open = true")
        if fresh and browser.execute_script(
            "const n = localStorage.length; localStorage.clear(); return n"
        ):
            return open_page(name, width, scheme)
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
    rows = browser.find_elements(By.CSS_SELECTOR, "#table .scan > tr:first-child > th")
    return [row.text for row in rows if row.is_displayed()]


def pixels(element) -> np.ndarray:
    picture = Image.open(io.BytesIO(element.screenshot_as_png)).convert("RGB")
    return np.asarray(picture, np.int16)


def inner(canvas) -> np.ndarray:
    return pixels(canvas)[10:-10, 10:-10]  # without the round corners and the mark of the focus


def open_row(browser, number):
    """Open the row of a scan, and return it when it is complete."""
    row = browser.find_element(By.ID, f"scan-{number}")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", row)
    row.find_element(By.TAG_NAME, "th").click()
    wait(browser, lambda _: row.find_elements(By.CLASS_NAME, "tools"))
    return row


def wait(browser, condition):
    return WebDriverWait(browser, 15).until(condition)


def load(browser, address):
    """Load a page, or the same once more, and wait for all of it; the driver may not if busy."""
    born = browser.execute_script("return performance.timeOrigin")
    browser.get(address)
    whole = (
        "return document.readyState == 'complete' && location.href == arguments[0]"
        " && performance.timeOrigin != arguments[1]"
    )
    wait(browser, lambda b: b.execute_script(whole, address, born))


def test_the_table_sorts_filters_and_explains_its_columns(opened):
    browser = opened()
    named = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#populations li")]
    assert named == [f"{site} 3 scans" for site in SITES]  # hostile names are names
    first, _, head, *_ = browser.find_elements(By.CSS_SELECTOR, "#table thead th")
    button = head.find_element(By.TAG_NAME, "button")
    names = [f"sub-{i + 1}" for i in range(8)]
    order = sorted((v, n) for v, n in zip(LEFT, names, strict=True) if v is not None)
    button.click()
    assert head.get_attribute("aria-sort") == "ascending"
    assert shown(browser) == [*(name for _, name in order), "sub-3"]  # unknown values last
    button.send_keys(Keys.ENTER)
    assert head.get_attribute("aria-sort") == "descending"
    assert shown(browser) == [*(name for _, name in reversed(order)), "sub-3"]
    first.find_element(By.TAG_NAME, "button").click()
    assert head.get_attribute("aria-sort") is None
    assert shown(browser) == names
    tip = browser.find_element(By.ID, "tip")
    webdriver.ActionChains(browser).move_to_element(button).perform()
    wait(browser, lambda _: tip.text == "What remains of the distance.")
    button.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    browser.execute_script("arguments[0].blur(); arguments[0].focus()", button)
    assert tip.is_displayed()
    voxels = browser.find_element(By.CSS_SELECTOR, "#scan-1 [data-column=Voxels]")
    assert not voxels.is_displayed()
    browser.find_element(By.ID, "wider").send_keys(Keys.ENTER)
    assert voxels.text == "150,000"
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


def test_rows_open_to_slices_and_curves_with_axes(opened):
    browser = opened()
    details = browser.find_elements(By.CSS_SELECTOR, ".more details")
    assert not browser.find_elements(By.CSS_SELECTOR, ".chart")
    browser.find_element(By.CSS_SELECTOR, "#scan-4 th").click()
    browser.find_element(By.CSS_SELECTOR, "#scan-2 summary").send_keys(Keys.ENTER)
    browser.find_element(By.CSS_SELECTOR, ".cards p a").send_keys(Keys.ENTER)
    note = browser.find_element(By.CSS_SELECTOR, "#scan-5 .note")
    wait(browser, lambda _: note.is_displayed())  # links are followed in their own time
    assert [n for n in range(8) if details[n].get_attribute("open")] == [1, 3, 4]
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, "#scan-4 .chart")) == 3)
    charts = browser.find_elements(By.CSS_SELECTOR, "#scan-4 .chart")
    assert [chart.get_attribute("aria-label") for chart in charts] == [
        "As scanned: voxels, mixture; intensity as scanned from 100 to 700",
        "Intensity map: z-scoring alone, map; intensity as scanned from 100 to 700",
        "After: voxels, target; intensity after normalisation from −3 to 3",
    ]
    words = [[text.text for text in c.find_elements(By.TAG_NAME, "text")] for c in charts]
    assert words[0] == [*("200", "400", "600"), "intensity as scanned", "density"]
    assert words[1][3:] == [*("−2", "0", "2"), "intensity as scanned", "after normalisation"]
    # The map goes from the lower left to the upper right corner of the axes.
    line = charts[1].find_element(By.CSS_SELECTOR, "path[stroke-width='2']")
    ends = [line.get_attribute("d")[1:].split("L")[k].split() for k in (0, -1)]
    assert [[float(v) for v in end] for end in ends] == [[54, 164], [330, 8]]
    picture = browser.find_element(By.CSS_SELECTOR, "#scan-4 .slices img")
    wait(browser, lambda b: b.execute_script("return arguments[0].naturalWidth", picture) == 120)
    browser.find_element(By.CSS_SELECTOR, "#scan-8 th").click()
    wait(browser, lambda b: b.find_elements(By.CSS_SELECTOR, "#scan-8 .missing"))
    lost = browser.find_element(By.CSS_SELECTOR, "#scan-8 .missing")
    assert lost.text == LOST
    logged = [line["message"] for line in browser.get_log("browser")]
    assert all("sub%208.png" in message for message in logged)


def test_points_lead_to_scans_brains_lie_on_each_other_and_the_section_is_marked(opened):
    browser = opened()
    browser.execute_script("document.querySelector('#scans > details').open = false")
    point = browser.find_element(By.CSS_SELECTOR, ".strip [href='#scan-5']")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", point)
    tip = browser.find_element(By.ID, "tip")
    move = webdriver.ActionChains(browser).move_to_element_with_offset(point, 0, 60)
    move.move_to_element(point)
    wait(browser, lambda _: move.perform() or tip.text == "sub-5: 0.1")
    point.click()
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, "#scan-5 .flags").is_displayed())
    marked = "nav [aria-current]"
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, marked).text == "Table")
    films = browser.find_elements(By.CSS_SELECTOR, ".column:nth-of-type(2) .film")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", films[1])
    wait(browser, lambda b: b.find_element(By.CSS_SELECTOR, marked).text == "Brains")
    assert films[0].rect["y"] < films[1].rect["y"] - 50
    webdriver.ActionChains(browser).move_to_element(films[1]).perform()
    wait(browser, lambda _: abs(films[0].rect["y"] - films[1].rect["y"]) < 2)


def rated(browser) -> str:
    return browser.find_element(By.ID, "rated-count").text


def test_ratings_are_counted_kept_filtered_and_exported(opened, folder):
    browser = opened()
    assert rated(browser) == "0 of 8 rated"
    assert not browser.find_element(By.ID, "rated-export").is_enabled()
    good, _, bad = browser.find_elements(By.CSS_SELECTOR, "#scan-2 .brief .rate")
    good.click()
    bad.send_keys(Keys.ENTER)  # a change of mind
    open_row(browser, 2).find_element(By.CLASS_NAME, "note-of").send_keys('motion, "ringing" <b>')
    twice = browser.find_element(By.CSS_SELECTOR, "#scan-6 .brief .rate")
    twice.click()
    twice.click()  # takes it back
    browser.find_element(By.CSS_SELECTOR, "#scan-7 .brief .rate[value=doubtful]").click()
    assert rated(browser) == "2 of 8 rated"
    browser = opened(fresh=False)
    assert rated(browser) == "2 of 8 rated"
    pressed = browser.find_elements(By.CSS_SELECTOR, ".brief .rate[aria-pressed=true]")
    assert [button.get_attribute("value") for button in pressed] == ["bad", "doubtful"]
    browser.find_element(By.ID, "filter-rating").send_keys("bad")
    assert shown(browser) == ["sub-2"]
    where = {"behavior": "allow", "downloadPath": str(folder)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    browser.find_element(By.ID, "rated-export").click()
    file = folder / "ratings.tsv"
    wait(browser, lambda _: file.exists())
    assert file.read_text("utf-8") == (
        "scan\tsite\trating\tnote\n"
        f'sub-2\t{SITES[1]}\tbad\tmotion, "ringing" <b>\n'
        f"sub-7\t{SITES[0]}\tdoubtful\tn/a\n"
    )
    browser = opened()
    assert rated(browser) == "0 of 8 rated"
    browser.find_element(By.ID, "rated-import").send_keys(str(file))
    wait(browser, lambda _: rated(browser) == "2 of 8 rated")
    assert browser.find_element(By.ID, "rated-state").text == "2 ratings imported."
    browser.find_element(By.ID, "rated-import").send_keys(str(folder / "report.html"))
    wait(
        browser, lambda b: "no columns scan and rating" in b.find_element(By.ID, "rated-state").text
    )


SIDES = ("before", "after")


def choose(browser, name, value):
    field = browser.find_element(By.CSS_SELECTOR, f"#view [name={name}][value='{value}']")
    browser.execute_script("arguments[0].click()", field)


def frame(browser, side) -> np.ndarray:
    """Return what a frame of the viewer shows, at its own resolution, once its picture is there."""
    element = browser.find_element(By.CSS_SELECTOR, f"#frame-{side} .frame")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    wait(browser, lambda _: pixels(element).max() > 20)
    return pixels(element)[:, :, 0]


def test_slices_are_compared_pixel_by_pixel_side_by_side_by_swiping_and_by_flickering(opened):
    browser = opened()
    for number, own_windows in ((2, OWN), (5, WIDE)):  # one within the page, one beside it
        open_row(browser, number).find_element(By.CLASS_NAME, "show").click()
        choose(browser, "size", 1)
        halves = np.split(strip(number - 1), 2)
        choose(browser, "window", "own")
        for side, half in zip(SIDES, halves, strict=True):
            wait(browser, lambda b, s=side, h=half: np.abs(frame(b, s) - h).max() <= 1)
        choose(browser, "window", "shared")
        said = browser.find_element(By.ID, "view-windows")
        wait(browser, lambda _, said=said: "the same for all" in said.text)
        assert said.text.startswith("From black to white: 50 to 250 before, −25 to 75 after")
        sides = zip(SIDES, halves, own_windows, study().windows, strict=True)
        for side, half, own, window in sides:
            truth = regreyed(half.astype(np.uint8), own, window).astype(int)
            assert np.abs(frame(browser, side) - truth).max() <= 1
    small = frame(browser, "before")
    choose(browser, "size", 4)
    large = frame(browser, "before")
    assert large.shape == (160, 480)
    assert np.abs(large - np.kron(small, np.ones((4, 4)))).max() <= 1  # no pixel is blurred
    choose(browser, "size", 1)
    choose(browser, "window", "own")
    before, after = halves
    choose(browser, "way", "swipe")
    slider = browser.find_element(By.ID, "swipe")
    slider.send_keys(Keys.HOME, Keys.ARROW_RIGHT, *[Keys.PAGE_UP] * 2)
    edge = round(1.2 * int(slider.get_attribute("value")))
    assert 12 < edge < 48
    seen = frame(browser, "after")
    assert np.abs(seen[:, : edge - 2] - before[:, : edge - 2]).max() <= 1
    assert np.abs(seen[:, edge + 2 :] - after[:, edge + 2 :]).max() <= 1
    choose(browser, "way", "flicker")
    frames = browser.find_element(By.ID, "frames")
    for seen in (after, before, after):
        assert np.abs(frame(browser, "after") - seen).max() <= 1
        frames.send_keys(Keys.SPACE)
    webdriver.ActionChains(browser).move_to_element(frames).perform()
    assert np.abs(frame(browser, "after") - before).max() <= 1  # still, as motion is not wanted


def test_the_viewer_steps_through_all_scans_and_says_which_picture_is_missing(opened):
    browser = opened()
    state, frames, lost, picture, windows = (
        browser.find_element(By.ID, name)
        for name in ("view-count", "frames", "view-missing", "frame-after", "view-windows")
    )
    wait(browser, lambda _: state.text == "1 of 8, Hamburg")
    top = "return document.getElementById('methods').getBoundingClientRect().top + scrollY"
    place = browser.execute_script(top)
    image = picture.find_element(By.TAG_NAME, "image")
    assert not image.get_attribute("href")
    browser.execute_script("arguments[0].scrollIntoView()", frames)
    wait(browser, lambda _: image.get_attribute("href"))
    assert browser.execute_script(top) == place  # nothing moves when it comes into sight
    frames.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_RIGHT)
    wait(browser, lambda _: state.text.startswith("3 of 8"))
    frames.send_keys("3")
    assert browser.find_element(By.ID, "scan-3").get_attribute("data-rating") == "bad"
    press = (
        "return document.getElementById('frames').dispatchEvent(new KeyboardEvent('keydown',"
        " {key: arguments[0], [arguments[1]]: true, bubbles: true, cancelable: true}))"
    )
    for held in ("ctrlKey", "metaKey", "altKey"):  # the shortcuts of the browser are left alone
        for key in ("1", "ArrowRight"):
            assert browser.execute_script(press, key, held)
    assert rated(browser) == "1 of 8 rated"
    assert state.text.startswith("3 of 8")
    frames.send_keys(*[Keys.ARROW_RIGHT] * 5)
    wait(browser, lambda _: lost.text == LOST)
    assert not browser.find_element(By.ID, "view-next").is_enabled()
    assert not picture.is_displayed()
    browser.get_log("browser")  # says so too
    choose(browser, "window", "shared")
    wait(browser, lambda _: "the same for all" in windows.text)
    assert lost.text == LOST
    assert browser.switch_to.active_element == frames
    frames.send_keys(Keys.ARROW_LEFT)
    wait(browser, lambda _: picture.is_displayed() and not lost.is_displayed())
    assert np.abs(frame(browser, "after")).max() > 20


def test_the_viewer_shows_both_volumes_and_moves_both_crosshairs(opened):
    if niivue() is None:
        pytest.skip("needs nilearn with NiiVue")
    browser = opened()
    open_row(browser, 2).find_element(By.CLASS_NAME, "show").click()
    shows = browser.find_element(By.ID, "view-shows")
    wait(browser, lambda _: shows.is_displayed())
    choose(browser, "window", "own")
    choose(browser, "show", "volumes")
    wait(browser, lambda b: b.find_element(By.ID, "view-state").text == "Showing sub-2.")
    assert not browser.find_element(By.ID, "stage").is_displayed()
    before, after = (browser.find_element(By.ID, name) for name in ("before", "after"))
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", before)
    first = inner(before)
    assert len(np.unique(first.reshape(-1, 3), axis=0)) > 30
    assert (first.min(axis=2) > 250).mean() < 0.02  # the window leaves hardly any voxel white
    # One is the other, stretched and shifted: in their own windows they are the same picture.
    assert np.abs(first - inner(after)).max() <= 8
    move = webdriver.ActionChains(browser)
    move.move_to_element_with_offset(before, -180, -40).click().perform()
    wait(browser, lambda _: np.abs(inner(after) - first).max() > 100)
    clicked = inner(after)
    assert np.abs(inner(before) - clicked).max() <= 8
    after.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.PAGE_UP)
    wait(browser, lambda _: np.abs(inner(before) - clicked).max() > 100)
    moved = inner(before)
    assert np.abs(moved - inner(after)).max() <= 8
    choose(browser, "window", "shared")  # before, white is at 250; after, almost all is above 75
    wait(browser, lambda _: np.abs(inner(after) - moved).max() > 50)
    wait(browser, lambda b: b.find_element(By.ID, "view-state").text == "Showing sub-2.")
    assert np.percentile(inner(after), 90) == 255
    assert np.percentile(inner(before), 95) < 230


def test_slices_stand_in_for_the_viewer_where_it_cannot_run(opened):
    browser = opened("still.html")
    open_row(browser, 3).find_element(By.CLASS_NAME, "show").click()
    wait(browser, lambda b: b.find_element(By.ID, "frame-after").is_displayed())
    assert browser.find_element(By.ID, "view-count").text.startswith("3 of 8")
    assert not browser.find_element(By.ID, "canvases").is_displayed()
    assert not browser.find_element(By.ID, "view-shows").is_displayed()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1020, "light")])
@pytest.mark.parametrize("name", ["report", "long"])
def test_reports_fit_any_width_in_both_colour_schemes(opened, name, width, scheme):
    browser = opened(f"{name}.html", width=width, scheme=scheme)
    browser.find_element(By.ID, "wider").send_keys(Keys.ENTER)
    for details in browser.find_elements(By.CSS_SELECTOR, "details"):
        browser.execute_script("arguments[0].open = true", details)
    assert browser.execute_script("return document.documentElement.scrollWidth") == width
    # The corner is paper, and pictures of brains are on black in both schemes.
    paper = pixels(browser.find_element(By.TAG_NAME, "h1"))[0, -1].mean()
    assert paper > 240 if scheme == "light" else paper < 40
    assert pixels(browser.find_element(By.CSS_SELECTOR, ".montage .film"))[2, 2].max() == 0
    widths = "return [...document.querySelectorAll('.prepared li')].map(e => e.offsetWidth)"
    assert max(browser.execute_script(widths), default=0) <= (width if width < 700 else width / 2)


def test_a_picture_of_the_preparation_is_enlarged_and_others_follow_by_key(opened):
    browser = opened("prepared.html")
    dialog, name = (browser.find_element(By.ID, one) for one in ("enlarged", "enlarged-name"))
    assert not dialog.is_displayed()
    link = browser.find_elements(By.CSS_SELECTOR, "[data-enlarge]")[3]
    small = link.find_element(By.TAG_NAME, "img")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", link)
    link.click()
    assert dialog.is_displayed()
    assert browser.current_url.endswith("prepared.html")  # the link was not followed
    assert name.text == "sub-4"
    large = browser.find_element(By.ID, "enlarged-picture")
    assert large.get_attribute("src") == small.get_attribute("src")
    assert large.size["width"] > 1.5 * small.size["width"]
    for key, expected in ((Keys.ARROW_RIGHT, "sub-5"), (Keys.ARROW_LEFT, "sub-4")):
        browser.switch_to.active_element.send_keys(key)
        assert name.text == expected
    for _ in range(4):  # from the first to the last
        browser.find_element(By.ID, "enlarged-previous").click()
    assert name.text == "sub-7"
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not dialog.is_displayed()


def test_a_printed_page_shows_what_to_check_and_no_controls(opened):
    browser = opened(width=700)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    seen = "return [...document.querySelectorAll(arguments[0])].map(e => e.checkVisibility())"
    shown = browser.execute_script(seen, ".flags, .facts, .explained, .montage, .picture, .scan")
    assert len(shown) > 15
    assert all(shown)
    assert browser.execute_script(seen, ".slices") == [i == 4 for i in range(8)]
    controls = "main button:not(thead *), nav, form, .controls, #viewer, #tip"
    assert not any(browser.execute_script(seen, controls))
    assert browser.execute_script("return document.documentElement.scrollWidth") == 700
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_the_report_of_one_scan_is_open(opened):
    browser = opened("one.html")
    wait(browser, lambda b: len(b.find_elements(By.CSS_SELECTOR, "#scan-1 .chart")) == 3)
    assert not browser.find_element(By.ID, "filter").is_displayed()
    bad = browser.find_element(By.CSS_SELECTOR, ".tools .rate[value=bad]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", bad)
    bad.click()
    assert rated(browser) == "1 of 1 rated"


def test_without_scripts_all_can_be_read(opened):
    browser = opened()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        load(browser, browser.current_url)
        for section in browser.find_elements(By.TAG_NAME, "section"):
            assert section.is_displayed()
        assert "needs JavaScript" in browser.find_element(By.ID, "viewer").text
        browser.find_element(By.CSS_SELECTOR, "#scans > details > summary").click()
        browser.find_element(By.CSS_SELECTOR, "#scan-5 summary").click()
        assert browser.find_element(By.CSS_SELECTOR, "#scan-5 .flags").is_displayed()
        assert browser.find_element(By.CSS_SELECTOR, "#scan-5 .slices img").is_displayed()
        hidden = "form, .rate, #stage, #canvases, main button"
        found = browser.find_elements(By.CSS_SELECTOR, hidden)
        assert not any(element.is_displayed() for element in found)
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        browser.get_log("browser")  # without scripts pictures are not lazy: one is missing
