"""``ndflow prepare --space MNI``: copies in a common space, beside what was prepared before."""

from collections.abc import Iterator
from pathlib import Path

import nibabel
import numpy as np
import pytest
from cli.conftest import Validate
from commands import typed, without_workers
from numpy.typing import NDArray
from phantoms import AFFINE, head, radii, save, tissue_shares, voxels_of
from scipy.ndimage import center_of_mass
from studies import contents, read_json, read_tsv, write_tsv

import ndflow
from ndflow.preparation.registration import WorkingGrid

PLAIN = ("--no-bias-field", "--tissues", "none")
MNI = ("--space", "MNI")
SPACE = "space-MNI152NLin2009aSym_res-2"
FIRST, SECOND = "sub-01/anat/sub-01", "sub-02/anat/sub-02"
MOVE = (25.0, -10.0, 18.0)  # of the second scan against the first, in mm


class Desk:
    """Two raw scans, the first with all that a table can name, and a folder for results."""

    def __init__(self, folder: Path) -> None:
        self.out, self.table = folder / "out", folder / "raw.tsv"
        moved = AFFINE.copy()
        moved[:3, 3] += MOVE
        files = {
            "sub-01_T1w": head(0),
            "mask": (radii() < 0.98).astype(np.uint8),
            "lesion": (radii() < 0.3).astype(np.uint8),
            **{tissue: share.astype(np.float32) for tissue, share in tissue_shares().items()},
        }
        for name, voxels in files.items():
            save(folder / f"{name}.nii.gz", voxels)
        save(folder / "sub-02_T1w.nii.gz", head(1), moved)
        save(folder / "mask2.nii.gz", files["mask"], moved)
        given = {name: f"{name}.nii.gz" for name in ("mask", "lesion", "csf", "gm", "wm")}
        one = {"image": "sub-01_T1w.nii.gz", "site": "A", "age": 30, **given}
        two = {"image": "sub-02_T1w.nii.gz", "site": "B", "age": 40, "mask": "mask2.nii.gz"}
        write_tsv(self.table, [one, two], one)

    def prepare(self, *options: object) -> None:
        typed("prepare", self.table, self.out, *PLAIN, "--no-report", "-q", *options)

    def copies(self) -> list[Path]:
        return sorted(path for path in self.out.rglob("*space-*") if path.is_file())


@pytest.fixture(scope="module", autouse=True)
def _shifted() -> Iterator[None]:
    """Lay centres of brains on each other; tests/preparation sees to the real registration."""

    def found(coarse: WorkingGrid, _: object = None) -> NDArray[np.float64]:
        matrix = np.eye(4)
        centre = nibabel.affines.apply_affine(coarse.affine, center_of_mass(coarse.brain))
        matrix[:3, 3] = centre - np.array([0.0, -20.0, 10.0])
        return matrix

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ndflow.preparation.registration.rigid_to_template", found)
        with without_workers():
            yield


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Desk, dict[str, bytes]]:
    """The desk with copies, and what was in its folder before they were asked for."""
    desk = Desk(tmp_path_factory.mktemp("copies"))
    desk.prepare()
    without = contents(desk.out)
    desk.prepare(*MNI, "--force")
    return desk, without


@pytest.fixture(scope="module")
def desk(before: tuple[Desk, dict[str, bytes]]) -> Desk:
    return before[0]


def centre(path: Path) -> NDArray[np.float64]:
    """Return the centre of mass of an image, in millimetres."""
    image = nibabel.load(path)
    return nibabel.affines.apply_affine(image.affine, center_of_mass(image.get_fdata()))


def test_copies_are_added_and_what_was_prepared_stays(
    before: tuple[Desk, dict[str, bytes]],
) -> None:
    desk, without = before
    now = contents(desk.out)
    renewed = {name for name in without if now[name] != without[name]}
    assert not any(name.endswith((".nii.gz", ".png")) for name in renewed)
    files = ("desc-preproc_T1w.nii.gz", "desc-preproc_T1w.json", "desc-brain_mask.nii.gz")
    more = ("label-CSF_probseg.nii.gz", "label-GM_probseg.nii.gz", "label-WM_probseg.nii.gz")
    more += ("label-lesion_mask.nii.gz", "probseg.json")
    assert {*now} - {*without} == {
        "study_space-MNI.tsv",
        *(f"{FIRST}_{SPACE}_{end}" for end in (*files, "mask.json", *more)),
        *(f"{SECOND}_{SPACE}_{end}" for end in (*files, "mask.json")),
    }


def test_copies_lie_on_the_grid_of_the_template(desk: Desk) -> None:
    images = [path for path in desk.copies() if path.name.endswith(".nii.gz")]
    assert len(images) == 8
    for path in images:
        image = nibabel.load(path)
        assert image.shape == (98, 116, 94)
        assert np.array_equal(np.diag(image.affine), [2, 2, 2, 1])
        assert (image.header["sform_code"], image.header["qform_code"]) == (4, 4)
        assert image.get_data_dtype() == (np.uint8 if "_mask" in path.name else np.float32)
    lesions = [
        voxels_of(desk.out / f"{FIRST}_{space}label-lesion_mask.nii.gz").sum()
        for space in ("", f"{SPACE}_")  # both of 2 mm
    ]
    assert lesions[0] <= lesions[1] <= 1.4 * lesions[0]


def test_the_matrix_leads_to_the_scan_and_intensities_stay(desk: Desk) -> None:
    for start in (FIRST, SECOND):
        record = read_json(desk.out / f"{start}_{SPACE}_desc-preproc_T1w.json")
        matrix = np.array(record["matrix"])
        np.testing.assert_allclose(matrix[:3, :3] @ matrix[:3, :3].T, np.eye(3), atol=1e-5)
        copy = centre(desk.out / f"{start}_{SPACE}_desc-preproc_T1w.nii.gz")
        own = centre(desk.out / f"{start}_desc-preproc_T1w.nii.gz")
        np.testing.assert_allclose(nibabel.affines.apply_affine(matrix, copy), own, atol=0.1)
        means = [
            voxels_of(desk.out / f"{start}_{space}desc-preproc_T1w.nii.gz")[
                voxels_of(desk.out / f"{start}_{space}desc-brain_mask.nii.gz") > 0
            ].mean()
            for space in ("", f"{SPACE}_")
        ]
        assert means[1] == pytest.approx(means[0], rel=0.05)


def test_the_bids_validator_finds_no_errors(desk: Desk, validate: Validate) -> None:
    assert validate(desk.out) == []


def test_a_table_lists_the_copies_for_a_study(desk: Desk) -> None:
    own, copies = (read_tsv(desk.out / f"study{end}.tsv") for end in ("", "_space-MNI"))
    for row, copy in zip(own, copies, strict=True):
        assert (copy["site"], copy["age"]) == (row["site"], row["age"])
        for what in ("image", "mask", "csf", "gm", "wm", "lesion"):
            assert (copy[what] == "n/a") == (row[what] == "n/a")
            assert row[what] == "n/a" or f"_{SPACE}_" in copy[what]


def test_copies_that_are_no_longer_asked_for_are_removed(
    before: tuple[Desk, dict[str, bytes]],
) -> None:
    desk, without = before
    desk.prepare("--force")
    assert desk.copies() == []
    assert contents(desk.out).keys() == without.keys()
    assert ndflow.verify(desk.out).findings == ()
