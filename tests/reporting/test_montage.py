"""The montage: one typical scan per site, all in one grey window."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from phantoms import save

from ndflow.density import GaussianMixture
from ndflow.image.preview import Preview
from ndflow.image.subject import Subject
from ndflow.reporting.montage import masks_of_sites, montage, regreyed, shared_windows
from ndflow.reporting.scan_section import ScanSummary
from ndflow.study.plan import ResultPaths
from ndflow.subject.records import MapRecord, ScanModel
from ndflow.transport import Affine
from ndflow.values import Doubt

PLACE = ResultPaths(*[Path("x")] * 4)


def mixture(mean: float, sd: float) -> GaussianMixture:
    return GaussianMixture([1.0], [mean], [sd**-2])


def summary(name: str, site: str | None, mean: float, sd: float) -> ScanSummary:
    model = ScanModel(mixture(mean, sd))
    imap = Affine(np.array([[1 / sd]]), np.array([-mean / sd]))
    return ScanSummary(Subject("x", name=name, site=site), PLACE, model, MapRecord(imap))


def preview(low: float, high: float, size: int = 40) -> Preview:
    """A brain whose greys rise from left to right."""
    ramp = np.tile(np.linspace(1, 255, size).astype(np.uint8), (size + 10, 1))
    ramp[:3] = 0
    wide = np.concatenate([ramp, ramp, ramp], axis=1)
    return Preview(wide, wide, (low, high), (-3.0, 3.0), (size, size, size))


SCANS = [
    summary("a1", "A", 100, 10),
    summary("a2", "A", 108, 10),
    summary("a3", "A", 140, 10),  # off, so a2 is the most typical of its site
    summary("b1", "B", 1000, 90),
    summary("b2", "B", 1010, 90),
]
PREVIEWS = {scan.scan.name: preview(0, 2 * float(scan.quantiles["raw"].mean())) for scan in SCANS}


def test_one_typical_scan_stands_for_each_site_and_no_doubtful_one_if_others_can() -> None:
    windows = shared_windows(SCANS)
    found = montage(SCANS, PREVIEWS, windows, {"b1"})
    assert (found.sites, found.scans) == (["A", "B"], ["a2", "b2"])
    assert montage(SCANS, PREVIEWS, windows, {"b1", "b2"}).scans[1] in ("b1", "b2")
    assert len(found.before) == len(found.after) == 2


def test_windows_before_and_after_are_the_same_quantiles_of_the_same_voxels() -> None:
    odd = summary("a4", "A", 108, 10)  # moves no window, as the other scans of its site do
    odd = replace(
        odd, model=ScanModel(mixture(5e6, 1e6)), record=MapRecord(Affine(np.eye(1), np.zeros(1)))
    )
    before, after = shared_windows([*SCANS, *SCANS[:3], odd])
    end = 2.5758293  # standard deviations, half of 99 % on either side
    assert before == pytest.approx((108 - 10 * end, 1005 + 90 * end), rel=1e-3)
    assert after == pytest.approx((-end, end), rel=1e-3)


@pytest.mark.parametrize("window", [(0.0, 100.0), (-50.0, 30.0), (20.0, 400.0)])
def test_a_picture_in_another_window_shows_the_same_intensities(
    window: tuple[float, float],
) -> None:
    own = (10.0, 90.0)
    greys = np.arange(256, dtype=np.uint8)[np.newaxis]
    found = regreyed(greys, own, window)[0].astype(float)
    assert found[0] == 0  # the outside stays outside
    intensities = 10 + 80 * (np.arange(1, 256) - 1) / 254
    shown = window[0] + (window[1] - window[0]) * (found[1:] - 1) / 254
    half = 0.51 * (window[1] - window[0]) / 254
    np.testing.assert_allclose(shown, np.clip(intensities, *window), atol=half)


def test_masks_are_shown_of_eight_sites_and_of_those_that_are_in_doubt(tmp_path: Path) -> None:
    values = np.zeros((10, 12, 8), np.int16)
    values[2:-2, 2:-2, 2:-2] = np.arange(100, 104)
    image = save(tmp_path / "image.nii", values)
    scans = [
        replace(summary(site, site, 100, 10), scan=Subject(image, name=site, site=site))
        for site in "ABCDEFGHIJ"
    ]
    wrong = Doubt("shading", "At J, brightness varies.", "correct it")
    picture = masks_of_sites(scans, [wrong], 1 << 20)
    assert picture is not None
    assert picture.alt.endswith("each site: A, B, C, D, E, F, G and J")
    assert masks_of_sites(scans, [replace(wrong, kind="site names")], 1 << 20) is None
