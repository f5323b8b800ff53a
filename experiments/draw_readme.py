"""Draw the pictures of the README: brains before and after, and the top of the report.

    python experiments/draw_readme.py [montage] [page]

The montage is that of the demo's recommended study, with voxels of 1 mm, whose slices are sharper
than those of the demo itself; the page is the demo's. Needs the extras `report` and `evaluate`, and
chromium for the page. Writes docs/figures/montage.png and docs/figures/page.png, each below 300 kB;
takes a few minutes.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from PIL import Image, ImageDraw, ImageFont

from ndflow.demo.run import RECOMMENDED, options_of, run_demo, write_demo_study
from ndflow.image.preview import read_preview
from ndflow.reporting.content import Montage
from ndflow.reporting.montage import montage, shared_windows
from ndflow.reporting.scan_section import scan_summaries
from ndflow.study.finished import read_finished
from ndflow.study.tasks import Silent

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
LARGEST = 300_000  # bytes of a picture
WIDTH, HEIGHT = 1060, 1440  # pixels of the screenshot
CANVAS, WORDS = 16, 225  # greys
GAP, LABEL, SIDE = 12, 34, 150  # pixels between slices, above them, and to their left
TALLEST = 330  # pixels of a slice


def main(*wanted: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if "montage" in wanted:
            save(picture(montage_at_1_mm(Path(folder))), FIGURES / "montage.png")
        if "page" in wanted:
            done = run_demo(Path(folder) / "demo", Silent(), jobs=-1, command=["ndflow", "demo"])
            screenshot(done.page, Path(folder) / "page.png")
            save(Image.open(Path(folder) / "page.png").convert("RGB"), FIGURES / "page.png")


def montage_at_1_mm(folder: Path) -> Montage:
    """Normalise the scans of the demo at 1 mm; return a typical one of each site."""
    table, out = write_demo_study(folder / "fine", resolution=1.0).table, folder / "out"
    words = ["cohort", str(table), str(out), *options_of(RECOMMENDED).split()]
    words += ["--jobs", "-1", "--no-report", "--quiet"]
    subprocess.run([sys.executable, "-m", "ndflow", *words], check=True)
    (run,) = read_finished([out])
    scans = list(scan_summaries(run))
    previews = {scan.scan.name: read_preview(scan.paths.preview) for scan in scans}
    windows = shared_windows(scans, previews, None)
    if windows is None:
        sys.exit("the study has no previews")
    return montage(scans, previews, windows, run.record.doubts)


def screenshot(page: Path, to: Path) -> None:
    """Store the top of a page as a browser shows it."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        sys.exit("a screenshot needs chromium, which is not installed")
    words = [
        *("--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000"),
        *(f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={to}", page.as_uri()),
    ]
    subprocess.run([browser, *words], check=True, capture_output=True, timeout=120)


def picture(slices: Montage) -> Image.Image:
    """Return a montage as one picture: sites side by side, before above after."""
    rows = [[pixels(one) for one in row] for row in (slices.before, slices.after)]
    width = max(image.width for row in rows for image in row)
    height = max(image.height for row in rows for image in row)
    size = (SIDE + len(slices.sites) * (width + GAP), LABEL + 2 * (height + GAP))
    canvas = Image.new("L", size, CANVAS)
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.truetype(font_manager.findfont("DejaVu Sans"), 17)
    for column, site in enumerate(slices.sites):
        middle = SIDE + column * (width + GAP) + width // 2
        draw.text((middle, LABEL // 2), site, WORDS, font, anchor="mm")
        for place, row in enumerate(rows):
            image = row[column]
            top = LABEL + place * (height + GAP) + (height - image.height) // 2
            canvas.paste(image, (middle - image.width // 2, top))
    for place, name in enumerate(("unnormalised", "normalised")):
        middle = LABEL + place * (height + GAP) + height // 2
        draw.text((SIDE - GAP, middle), name, WORDS, font, anchor="rm")
    return canvas


def pixels(png: bytes) -> Image.Image:
    """Return a slice on the canvas; what is transparent in it is outside the brain."""
    image = Image.open(io.BytesIO(png)).convert("LA")
    greys, alpha = np.moveaxis(np.asarray(image), 2, 0)
    shown = Image.fromarray(np.where(alpha > 0, greys, CANVAS).astype(np.uint8))
    scale = TALLEST / shown.height
    return shown.resize((round(shown.width * scale), TALLEST), Image.Resampling.LANCZOS)


def save(image: Image.Image, path: Path) -> None:
    """Store a picture, with fewer colours if it is too large with all of them."""
    for colours in (None, 256, 64):
        if colours:
            image = image.quantize(colours, dither=Image.Dither.NONE)
        image.save(path, optimize=True)
        if path.stat().st_size <= LARGEST:
            return
    sys.exit(f"{path} is larger than {LARGEST} bytes")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ("montage", "page")))
