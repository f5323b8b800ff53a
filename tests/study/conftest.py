"""Scans of three sites, and studies of them that are run once for each choice of settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, save
from studies import Silent

import ndflow
from ndflow.image.subject import Subject
from ndflow.options import Options
from ndflow.study.plan import Study
from ndflow.study.run import Summary, run_study
from ndflow.study.table import named

SITES = {  # contrasts that no affine map makes equal, and a gain
    "Aachen": (((300.0, 60.0), (700.0, 50.0), (1000.0, 40.0)), 1.0),
    "Bonn": (((250.0, 50.0), (820.0, 45.0), (1000.0, 40.0)), 2.5),
    "Celle": (((400.0, 60.0), (600.0, 50.0), (1000.0, 60.0)), 0.6),
}
SITE_OF = [*["Aachen"] * 3, *["Bonn"] * 3, *["Celle"] * 2]  # the site of each scan


class Done(NamedTuple):
    """A finished study."""

    scans: list[Subject]
    folder: Path
    summary: Summary

    def names(self, site: str | None = None) -> list[str]:
        return [scan.name for scan in self.scans if site in (None, scan.site)]

    def before(self, name: str) -> NDArray[np.float64]:
        path = next(scan.path for scan in self.scans if scan.name == name)
        return np.asarray(nibabel.load(path).dataobj, np.float64)

    def after(self, name: str) -> NDArray[np.float32]:
        return np.asarray(nibabel.load(self.folder / "images" / f"{name}.nii.gz").dataobj)

    def model(self, name: str) -> Any:
        return ndflow.load(self.folder / "models" / f"{name}.json")

    def load(self, name: str) -> Any:
        return ndflow.load(self.folder / f"{name}.json")


@pytest.fixture(scope="package")
def scans(tmp_path_factory: pytest.TempPathFactory) -> list[Subject]:
    """Eight scans of three sites: scan0, scan1, …"""
    folder = tmp_path_factory.mktemp("scans")
    made = []
    for number, site in enumerate(SITE_OF):
        (csf, (grey, sd), white), gain = SITES[site]
        tissues = (csf, (grey + 15 * (number % 3), sd), white)  # subjects differ too
        data = head(number, shape=(18, 20, 16), tissues=tissues, gain=gain * (1 + 0.05 * number))
        path = save(folder / f"scan{number}.nii.gz", data)
        origin = f"row {number + 2}"
        made.append(Subject({"T1w": str(path)}, site=site, person=f"{number:02}", origin=origin))
    return named(made)


@pytest.fixture(scope="package")
def study(scans: list[Subject], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Return a function that runs a study once for each choice of settings."""

    @cache
    def done(
        mode: str = "individual",
        options: Options = Options(),
        given: str | None = None,
        only: str = "Aachen Bonn Celle",
    ) -> Done:
        folder = tmp_path_factory.mktemp("study") / "out"
        chosen = [scan for scan in scans if scan.site in only.split()]
        plan = Study(
            folder,
            chosen,
            options=replace(options, mode=mode),  # type: ignore[arg-type]
            given=given,
        )
        summary = run_study(plan, Silent(), command=["test"])
        assert summary[:3] == (len(chosen), 0, [])
        return Done(chosen, folder, summary)

    return done
