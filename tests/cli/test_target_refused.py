"""``--proportions``: every error that a user may get, and that nothing is written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run
from phantoms import head, save

import ndflow
from ndflow.population import Tissues, tissue_model

SHAPE = (16, 18, 14)


class Desk:
    """Two scans, tissue maps of one, a reference, and tables with and without maps."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reference = folder, folder / "reference.json"
        scans = [save(self.scan(f"s{n}"), head(n, shape=SHAPE)) for n in (0, 1)]
        kinds = head(0, shape=SHAPE, tissues=((1, 0), (2, 0), (3, 0)))
        for kind, tissue in enumerate(("csf", "gm", "wm"), 1):
            save(self.scan(tissue), (kinds == kind).astype(np.float32))
        made = ndflow.reference([ndflow.fit(scans[0])])
        alone = [ndflow.fit(scans[0], mask=self.scan(t)).mixture for t in ("csf", "gm", "wm")]
        tissues = tissue_model([Tissues(tuple(alone), [0.3, 0.4, 0.3])])
        ndflow.save(self.reference, replace(made, tissues=tissues))
        maps = "csf.nii.gz\tgm.nii.gz\twm.nii.gz"
        rows = [f"s{n}.nii.gz\tA\t{maps}" for n in (0, 1)]
        self.table, self.bare, self.nowhere = (folder / f"{n}.tsv" for n in ("all", "bare", "no"))
        self.table.write_text("\n".join(["image\tsite\tcsf\tgm\twm", *rows]))
        self.bare.write_text("\n".join(["image\tsite\tcsf\tgm", *(r[:-10] for r in rows)]))
        self.nowhere.write_text("image\ns0.nii.gz\ns1.nii.gz\n")

    def scan(self, name: str) -> Path:
        return self.folder / f"{name}.nii.gz"

    def maps(self, *, gm: Path | None = None) -> list[Any]:
        """Return the option that gives the tissue maps of the first scan."""
        csf, grey, wm = (self.scan(tissue) for tissue in ("csf", "gm", "wm"))
        return ["--tissue-maps", f"csf={csf}", f"gm={gm or grey}", f"wm={wm}"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (
            ("--proportions", "tissue"),
            "--proportions tissue needs tissue probability maps: --tissue-maps",
        ),
        (
            ("MAPS", "--proportions", "average"),
            "--tissue-maps are for --proportions tissue only",
        ),
        (
            ("MAPS", "--proportions", "adaptive"),
            "--tissue-maps are for --proportions tissue only",
        ),
        (
            ("--proportions", "tissue", "--method", "nyul", "MAPS"),
            "is not an option of the method 'nyul'",
        ),
        (
            ("--proportions", "adaptive", "--method", "affine"),
            "not an option of the method 'affine'",
        ),
        (("--proportions", "median"), "--proportions"),
    ],
)
def test_tissue_maps_and_target_must_agree(
    run: Run, desk: Desk, tmp_path: Path, options: tuple[str, ...], cause: str
) -> None:
    words = [part for word in options for part in (desk.maps() if word == "MAPS" else [word])]
    out = tmp_path / "out.nii.gz"
    done = run("normalise", desk.scan("s0"), "--to", desk.reference, "-o", out, *words)
    assert (done.code, len(done.errors)) == (2, 1)
    assert cause in done.errors[0]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("target", ["tissue", "adaptive"])
def test_an_image_cannot_be_the_target_of_tissues(
    run: Run, desk: Desk, tmp_path: Path, target: str
) -> None:
    words = ("normalise", desk.scan("s0"), "--to", desk.scan("s1"), "-o", tmp_path / "o.nii.gz")
    maps = desk.maps() if target == "tissue" else []
    done = run(*words, "--proportions", target, *maps)
    line = f"error: {desk.scan('s1')}: an image, which does not know the tissues of a population; "
    assert (done.code, done.errors) == (2, [f"{line}give a reference, or leave out --proportions"])
    assert not list(tmp_path.iterdir())


def test_one_gaussian_has_no_tissues(run: Run, desk: Desk, tmp_path: Path) -> None:
    one = tmp_path / "one.json"
    ndflow.save(one, ndflow.GaussianMixture([1.0], [0.0], [1.0]))
    words = ("normalise", desk.scan("s0"), "--to", one, "-o", tmp_path / "o.nii.gz")
    done = run(*words, "--proportions", "adaptive")
    assert (done.code, len(done.errors)) == (2, 1)
    assert done.errors[0].startswith(
        f"error: {one}: has no tissues, and none can be made from its components "
    )
    assert "or leave out --proportions" in done.errors[0]


def test_a_map_of_another_scan_is_named(run: Run, desk: Desk, tmp_path: Path) -> None:
    small = save(tmp_path / "small.nii.gz", np.ones((4, 5, 6), np.float32))
    words = ("normalise", desk.scan("s0"), "--to", desk.reference, "--proportions", "tissue")
    done = run(*words, *desk.maps(gm=small), "-o", tmp_path / "o.nii.gz")
    line = f"error: {small}: has the shape (4, 5, 6), but the scan (16, 18, 14); "
    assert (done.code, done.errors) == (2, [f"{line}give a map on the grid of the scan"])
    gone = tmp_path / "gone.nii.gz"
    done = run(*words, *desk.maps(gm=gone), "-o", tmp_path / "o.nii.gz")
    assert (done.code, len(done.errors)) == (2, 1)
    assert f"{gone}: no such file" in done.errors[0]
    assert list(tmp_path.iterdir()) == [small]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--proportions", "tissue", "--mode", "site"), "use --mode two-level or individual"),
        (
            ("--proportions", "tissue", "--method", "nyul"),
            "proportions is not an option of the method",
        ),
        (("--method", "nyul", "--mode", "two-level"), "leave out --mode two-level"),
        (("--method", "affine", "--mode", "site"), "leave out --mode site"),
        (
            ("--proportions", "tissue", "BARE"),
            "s0.nii.gz: not all of its tissues are known (row 2); ",
        ),
        (("--mode", "two-level", "NOWHERE"), "s0.nii.gz: its site is not known (row 2); "),
    ],
)
def test_contradictory_options_of_a_study_are_refused(
    run: Run, desk: Desk, tmp_path: Path, options: tuple[str, ...], cause: str
) -> None:
    tables = {"BARE": desk.bare, "NOWHERE": desk.nowhere}
    table = next((tables[word] for word in options if word in tables), desk.table)
    words = [word for word in options if word not in tables]
    done = run("cohort", table, tmp_path / "out", *words)
    assert (done.code, len(done.errors)) == (2, 1)
    assert cause in done.errors[0]
    assert not list(tmp_path.iterdir())
