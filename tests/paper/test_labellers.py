"""Tissue maps of the cohort, made by one recipe, do not seem to be of different labellers."""

import csv
from pathlib import Path

import nibabel
import numpy as np
import pytest
from numpy.typing import NDArray

from ndflow.study.checks import labeller_doubts

pytestmark = pytest.mark.slow

Sites = dict[str, NDArray[np.float64]]


@pytest.fixture(scope="module")
def sites(cohort_folder: Path) -> Sites:
    found: dict[str, list[NDArray[np.float64]]] = {}
    with (cohort_folder / "participants.tsv").open(newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            stem = cohort_folder / row["participant_id"] / "anat" / row["participant_id"]
            kinds = ("desc-brain_mask", *(f"label-{t}_probseg" for t in ("CSF", "GM", "WM")))
            mask, *maps = (np.asarray(nibabel.load(f"{stem}_{k}.nii.gz").dataobj) for k in kinds)
            amounts = np.array([one[mask > 0].sum(dtype=np.float64) for one in maps])
            found.setdefault(row["site"], []).append(amounts / amounts.sum())
    return {site: np.array(rows) for site, rows in found.items()}


def test_maps_of_one_recipe_are_no_reason_to_warn(sites: Sites) -> None:
    assert labeller_doubts(sites) == ()
    for site in sites:
        assert labeller_doubts({one: sites[one] for one in sites if one != site}) == ()


def test_maps_that_call_a_tenth_of_gm_wm_are(sites: Sites) -> None:
    for site, (csf, gm, wm) in ((site, own.T) for site, own in sites.items()):
        other = np.stack([csf, 0.9 * gm, wm + 0.1 * gm], axis=1)
        (doubt,) = labeller_doubts(sites | {site: other})
        assert doubt.text.startswith(f"At {site}, ")
