"""The references of a study: made from its scans or given; each site is matched once."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from names import ODD
from phantoms import head, save, tissue_shares
from studies import Silent, positive, write_tsv

import ndflow
from ndflow.errors import FileError
from ndflow.image.subject import Subject
from ndflow.methods import baselines as nyul
from ndflow.methods import modes
from ndflow.methods.ndflow import DensityFlow
from ndflow.options import Options
from ndflow.study.listing import PlainNames, named
from ndflow.study.plan import Study, reference_name
from ndflow.study.references import compare_scans
from ndflow.study.run import run_study
from ndflow.study.table import read_study_scans
from ndflow.study.tasks import Outcome
from ndflow.subject.records import ScanModel
from ndflow.transport import align

Runs = Callable[..., Any]
SITES = ("Aachen", "Bonn", "Celle")


@pytest.mark.parametrize("average", ["density", "quantile"])
def test_references_are_those_of_the_models(study: Runs, average: Any) -> None:
    done = study(options=Options(average=average))
    for site in (None, *SITES):
        names = done.names(site)
        models = [done.model(name) for name in names]
        expected = ndflow.reference(models, average=average, names=names, channel="T1w")
        written = done.load("reference" if site is None else f"reference_{site}")
        assert written.to_dict() == expected.to_dict()
        assert written.scans == len(names)


def test_references_do_not_depend_on_the_order_of_the_scans(study: Runs, scans: Any) -> None:
    folder = study(options=Options(method="nyul")).folder
    plan = Study(folder, scans, options=Options(method="nyul"))
    one, other = (compare_scans(plan, some) for some in (scans, scans[::-1]))
    assert one.common.to_dict() == other.common.to_dict()
    assert {site: own.to_dict() for site, own in one.sites.items()} == {
        site: own.to_dict() for site, own in other.sites.items()
    }
    assert one.common.to_dict() == ndflow.load(folder / "reference.json").to_dict()
    assert one.common.landmarks is not None
    assert one.common.landmarks.method == nyul.Nyul.name


@pytest.mark.parametrize("odd", [*ODD, "reference", os.fsdecode(b"caf\xe9")])
def test_whatever_a_site_is_called_its_reference_stays_in_the_folder(
    scans: list[Subject], tmp_path: Path, odd: str
) -> None:
    pair = [replace(scans[0], site=odd), replace(scans[1], site="other")]
    folder = tmp_path / "deep" / "out"
    folder.parent.mkdir()
    plan = Study(folder, pair, Options(mode="site", effective_count=500))
    assert run_study(plan, Silent()).done == 2
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
    assert (folder / reference_name(odd)).parent == folder
    assert len(list(folder.glob("reference_*.json"))) == 2
    assert len(list(folder.glob("map_*.json"))) == 2
    assert len((folder / "scans.tsv").read_bytes().splitlines()) == 3
    assert len(read_study_scans(folder / "scans.tsv")) == 2


# ── a reference that is given ────────────────────────────────────────────────────────────────────


def test_a_given_reference_is_used_and_kept(study: Runs) -> None:
    given = study(only="Aachen Bonn").folder / "reference.json"
    done = study(given=str(given), only="Celle")
    assert (done.folder / "reference.json").read_bytes() == given.read_bytes()
    for scan in done.scans:
        single = ndflow.normalise(scan.image, given, preset="paper")
        assert np.array_equal(np.asarray(single.image.dataobj), done.after(scan.name))


def test_a_known_site_keeps_its_map_and_a_new_one_gets_its_own(study: Runs) -> None:
    first = study("site", only="Aachen Bonn")
    given = str(first.folder / "reference.json")
    later = study("site", given=given, only="Bonn Celle")
    for kind in ("reference", "map"):
        name = f"{kind}_Bonn.json"
        assert (later.folder / name).read_bytes() == (first.folder / name).read_bytes()
    for name in later.names("Bonn"):
        assert np.array_equal(later.after(name), first.after(name))
    models = [later.model(name) for name in later.names("Celle")]
    own = later.load("reference_Celle")
    assert own.mixture == ndflow.reference(models).mixture
    shared = ndflow.normalising_map(own, first.load("reference"))
    for name in later.names("Celle"):
        x = later.before(name)
        aligned = align(later.model(name))(x[x != 0])
        expected = positive(shared(aligned))
        np.testing.assert_allclose(later.after(name)[x != 0], expected, atol=0.1)


def test_one_new_scan_of_a_known_site_goes_the_way_of_the_site(study: Runs, tmp_path: Path) -> None:
    first = study("site")
    image = save(tmp_path / "new.nii.gz", head(77, gain=3))
    scan = replace(first.scans[0], images={"T1w": str(image)})
    folder = tmp_path / "out"
    given = str(first.folder / "reference.json")
    plan = Study(folder, named([scan], PlainNames()), Options(mode="site"), given=given)
    run_study(plan, Silent())
    imap = ndflow.load(folder / "maps" / "new.json")
    assert imap.maps[1] == first.load("map_Aachen")
    assert imap.maps[0] == align(ndflow.load(folder / "models" / "new.json"))


def test_a_mixture_given_as_the_reference_is_refused(scans: list[Subject], tmp_path: Path) -> None:
    ndflow.save(tmp_path / "mixture.json", ndflow.fit(scans[0].image))
    plan = Study(tmp_path / "out", scans, given=str(tmp_path / "mixture.json"))
    with pytest.raises(FileError, match="a mixture, not a reference"):
        run_study(plan, Silent())


# ── nothing is read or computed twice ────────────────────────────────────────────────────────────


class Counts:
    """Progress that counts, per pass, model files read, maps of sites made and matches solved."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.stage = "before"
        self.read: dict[str, Counter[str]] = {}
        self.sites: Counter[str] = Counter()
        self.solved: Counter[str] = Counter()
        read, to, solve = ScanModel.read, modes.SiteMap.to, DensityFlow.solve

        def counted_read(path: Any) -> Any:
            self.read.setdefault(self.stage, Counter())[Path(path).stem] += 1
            return read(path)

        def counted_to(reference: Any, site: Any, options: Any) -> Any:
            self.sites[str(site.mixture.to_dict())] += 1
            return to(reference, site, options)

        def counted_solve(method: Any, source: Any, target: Any, options: Any) -> Any:
            self.solved[self.stage] += 1
            return solve(method, source, target, options)

        patch.setattr(ScanModel, "read", staticmethod(counted_read))
        patch.setattr(modes.SiteMap, "to", staticmethod(counted_to))
        patch.setattr(DensityFlow, "solve", counted_solve)

    def begin(self, stage: str, total: int) -> None:
        self.stage, self.left = stage, total

    def step(self, stage: str, outcome: Outcome) -> None:
        assert outcome.failure is None, outcome.failure
        self.left -= 1
        if not self.left and stage == "fit":
            self.stage = "references"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six scans of two sites, with tissue probability maps."""
    folder = tmp_path_factory.mktemp("tissues")
    shape = (14, 16, 12)
    maps = {
        tissue: save(folder / f"{tissue}.nii.gz", np.maximum(share, 0))
        for tissue, share in tissue_shares(shape).items()
    }
    rows = []
    for number in range(6):
        image = save(folder / f"s{number}.nii.gz", head(number, shape=shape, gain=1 + number % 2))
        rows.append({"image": image, "site": f"site{number % 2}", **maps})
    return write_tsv(folder / "scans.tsv", rows)


@pytest.mark.parametrize(
    ("mode", "proportions"),
    [
        ("individual", "average"),
        ("individual", "tissue"),
        ("site", "average"),
        ("two-level", "average"),
        ("two-level", "tissue"),
    ],
)
def test_each_model_is_read_once_and_each_site_is_matched_once(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, proportions: Any
) -> None:
    counts = Counts(monkeypatch)
    options = {"mode": mode, "proportions": proportions}
    done = ndflow.cohort(table, tmp_path / "out", progress=counts, report=False, **options)
    assert (done.done, done.kept, done.failures) == (6, 0, [])
    once = Counter({f"s{number}": 1 for number in range(6)})
    assert counts.read == {"references": once}
    by_site = mode != "individual"
    assert list(counts.sites.values()) == [1] * (2 if by_site else 0)
    # In the space of the reference the tissues of a study follow the maps of their sites, which
    # with two levels no scan's own match is part of.
    assert counts.solved["references"] == len(counts.sites)
    assert counts.solved["normalise"] == (0 if mode == "site" else 6)
