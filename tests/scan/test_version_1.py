"""Files that ndflow 0.1.0 wrote, in version 1 of the format, are read with all that they hold.

See tests/data/version_1/README.md for how they were made; the scans are drawn below.
"""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from phantoms import head, save, tissue_shares

import ndflow
from ndflow import Affine, Chain, GaussianMixture, PiecewiseLinear, Reference, Tabulated
from ndflow.files.fingerprints import FileHash
from ndflow.files.json_model import read_model
from ndflow.files.stream import sha256_of
from ndflow.methods.solution import Divergence
from ndflow.scan.records import (
    EvaluationRecord,
    MapRecord,
    ReferenceModel,
    ScanModel,
    StudyRecord,
)
from ndflow.study.finished import read_finished

FOLDER = Path(__file__).parents[1] / "data" / "version_1"
FILES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.json"))
FILES.remove("mapped.json")
MAPPED: dict[str, dict[str, list[float]]] = json.loads((FOLDER / "mapped.json").read_text())
ENVELOPE = ("format", "version", "kind", "ndflow")
every_file = pytest.mark.parametrize("name", FILES)

SMALL = (14, 16, 12)
SITES = {"Aachen": (300.0, 700.0, 1.0), "Bonn": (250.0, 820.0, 2.5)}  # CSF, GM and gain


def scan(number: int) -> NDArray[np.int16]:
    """Draw the scan ``s0.nii.gz``, …, ``s3.nii.gz``."""
    csf, gm, gain = SITES["Aachen" if number < 2 else "Bonn"]
    tissues = ((csf, 60.0), (gm + 20 * (number % 2), 50.0), (1000.0, 40.0))
    return head(number, shape=SMALL, tissues=tissues, gain=gain)


def ill() -> NDArray[np.int16]:
    """Draw the scan with a lesion."""
    image = head(7, shape=SMALL)
    image[6:9, 7:10, 5:8] = 1900
    return image


def tissue_maps() -> dict[str, NDArray[np.uint8]]:
    shares = tissue_shares(SMALL).items()
    return {name: np.rint(100 * np.maximum(one, 0)).astype(np.uint8) for name, one in shares}


def stored(name: str) -> dict[str, Any]:
    """Return the JSON of a file."""
    data: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return data


def same(value: Any, data: dict[str, Any]) -> bool:
    """Compare a value with its JSON in version 1, of which only names changed since."""
    plain = value.to_dict()
    names = {key for key in data if key != "type"}
    return all(plain[key] == data[key] for key in names)


def alike(one: GaussianMixture | None, other: GaussianMixture | None) -> bool:
    """Compare mixtures up to what another version of numpy may change."""
    assert one is not None
    assert other is not None
    return one.components == other.components and all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=1e-6)
        for name in ("weights", "means", "precisions")
    )


# ── every file ───────────────────────────────────────────────────────────────────────────────────


@every_file
def test_a_file_is_of_version_1_and_names_no_other_folder(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert stored(name)["version"] == 1
    paths = [part for part in text.split('"') if part.startswith("/")]
    assert all(path.startswith("/study/") for path in paths)


@every_file
def test_a_file_is_read_and_can_be_written_in_the_version_of_today(
    name: str, tmp_path: Path
) -> None:
    kinds: dict[str, Any] = {
        kind.kind: kind
        for kind in (ScanModel, ReferenceModel, MapRecord, StudyRecord, EvaluationRecord)
    }
    record = kinds[stored(name)["kind"]].read(FOLDER / name)
    record.write(tmp_path / "again.json")
    assert type(record).read(tmp_path / "again.json").to_dict() == record.to_dict()
    assert "checksum" in read_model(tmp_path / "again.json").payload
    assert json.loads((tmp_path / "again.json").read_text())["version"] == 2


@every_file
def test_nothing_that_a_file_holds_is_lost(name: str, tmp_path: Path) -> None:
    """Every number and text of a file is in the record that is read from it."""
    kinds: dict[str, Any] = {
        kind.kind: kind
        for kind in (ScanModel, ReferenceModel, MapRecord, StudyRecord, EvaluationRecord)
    }
    data = stored(name)
    record = kinds[data["kind"]].read(FOLDER / name)
    before = leaves({k: part for k, part in data.items() if k not in (*ENVELOPE, "seal")})
    after = leaves(record.to_dict())
    renamed = {"centre"}
    assert before - renamed - after == set()


def leaves(item: Any) -> set[Any]:
    if isinstance(item, dict):
        return {leaf for part in item.values() for leaf in leaves(part)}
    if isinstance(item, list | tuple):
        return {leaf for part in item for leaf in leaves(part)}
    return set() if item is None else {item}


@pytest.mark.parametrize("name", MAPPED)
def test_a_map_takes_intensities_where_it_took_them_then(name: str) -> None:
    imap = ndflow.load(FOLDER / name)
    assert isinstance(imap, ndflow.IntensityMap)
    x, y = MAPPED[name]["x"], MAPPED[name]["y"]
    np.testing.assert_allclose(imap(x), y, rtol=1e-12)
    np.testing.assert_allclose(imap.inverse()(y), x, rtol=1e-6)


# ── what they hold ───────────────────────────────────────────────────────────────────────────────


def test_a_mixture_has_its_tissues_and_the_hashes_of_its_files() -> None:
    name = "mixture_tissues.json"
    data, record = stored(name), ScanModel.read(FOLDER / name)
    assert same(record.mixture, data["mixture"])
    assert ndflow.load(FOLDER / name) == record.mixture
    assert alike(record.mixture, ndflow.fit(scan(0)).mixture)
    assert record.tissues is not None
    assert same(record.tissues, data["tissues"])
    assert record.sha256 == {
        "image": tuple(data["sha256"]),
        **{tissue: tuple(hashes) for tissue, hashes in data["maps"].items()},
    }
    assert record.voxels is not None
    assert record.voxels.fitted == np.count_nonzero(scan(0))
    assert record.settings == data["settings"]


def test_a_reference_has_the_parts_that_stood_beside_it() -> None:
    parts = {
        "reference.json": set(),
        "reference_nyul.json": {"landmarks"},
        "reference_tissues.json": {"tissues"},
    }
    for name, known in parts.items():
        data, reference = stored(name), ndflow.load(FOLDER / name)
        assert isinstance(reference, Reference)
        assert same(reference.mixture, data["reference"]["mixture"])
        assert (reference.scans, reference.channel_names) == (
            4,
            tuple(data["reference"]["channels"]),
        )
        found = {
            part: value
            for part in ("landmarks", "tissues")
            if (value := getattr(reference, part)) is not None
        }
        assert set(found) == known
        for part in known:
            assert same(found[part], data[part])


def test_a_reference_knows_what_it_was_made_of() -> None:
    data, record = stored("reference.json"), ReferenceModel.read(FOLDER / "reference.json")
    assert record.inputs is not None
    for one, given in zip(record.inputs, data["inputs"], strict=True):
        assert (one.name, list(one.sha256)) == (given["name"], given["sha256"])
        assert one.settings == {"mask": "nonzero", "exclude": False, "effective_count": 1e4}


def test_a_sidecar_of_a_tissue_target_says_what_it_was_matched_to() -> None:
    data, record = stored("sidecar_tissue.json"), MapRecord.read(FOLDER / "sidecar_tissue.json")
    assert isinstance(record.map, Tabulated)
    assert same(record.map, data["map"])
    assert record.mixture is not None
    assert same(record.mixture, data["mixture"])
    assert record.match is not None
    assert record.match.message == data["match"]
    assert record.match.divergence == Divergence(**data["divergence"])
    assert record.match.slopes is not None
    assert list(record.match.slopes.range) == data["jacobian"]["range"]
    choice = record.match.target
    assert choice is not None
    assert (choice.to, choice.reason) == ("tissues", data["aim"]["from"])
    assert choice.proportions == data["aim"]["proportions"]
    assert choice.plain is not None
    assert choice.plain.divergence == Divergence("l2", **data["aim"]["plain"]["divergence"])
    assert record.target is not None
    assert record.target.tissues is not None
    assert same(record.target.tissues, data["target"]["tissues"])
    assert record.inputs is not None
    assert set(record.inputs) == {"image", "csf", "gm", "wm", "target"}
    assert (record.setting("target"), record.command) == ("tissue", tuple(data["command"]))


def test_a_sidecar_says_what_was_kept_out_of_the_match() -> None:
    frozen = MapRecord.read(FOLDER / "sidecar_frozen.json")
    assert frozen.match is not None
    assert frozen.match.frozen == (0,)
    assert frozen.inputs is not None
    assert frozen.inputs["lesion"][0].file == "lesion.nii.gz"


def test_a_sidecar_of_an_applied_map_has_no_match() -> None:
    record = MapRecord.read(FOLDER / "sidecar_inverse.json")
    assert isinstance(record.map, PiecewiseLinear)
    assert (record.match, record.target, record.mixture) == (None, None, None)
    assert record.setting("inverse") is True
    assert record.inputs is not None
    assert isinstance(record.inputs["map"][0], FileHash)


# ── what can be done with them ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("image", "reference", "options", "sidecar"),
    [
        (
            scan(0),
            "reference_tissues.json",
            {"target": "tissue", "objective": "l2", **tissue_maps()},
            "tissue",
        ),
        (scan(0), "reference_nyul.json", {"method": "nyul"}, "nyul"),
        (
            ill(),
            "reference.json",
            {"exclude": ill() == 1900, "freeze": ("0",), "objective": "cramer"},
            "frozen",
        ),
    ],
)
def test_an_old_reference_gives_the_map_that_it_gave_then(
    image: NDArray[np.int16], reference: str, options: dict[str, Any], sidecar: str
) -> None:
    result = ndflow.normalise(image, FOLDER / reference, scale="standard", **options)
    then = MapRecord.read(FOLDER / f"sidecar_{sidecar}.json")
    assert alike(result.mixture, then.mixture)
    x = image[image != 0].astype(float)
    np.testing.assert_allclose(result.imap(x), then.map(x), atol=1e-6)
    assert result.record.match is not None
    assert then.match is not None
    now, before = leaves(result.record.match.to_dict()), leaves(then.match.to_dict())
    numbers = [sorted(one for one in part if isinstance(one, float)) for part in (now, before)]
    np.testing.assert_allclose(*numbers, rtol=1e-4)
    assert result.record.match.message == then.match.message
    assert result.record.match.frozen == then.match.frozen


@pytest.mark.parametrize("sidecar", ["tissue", "nyul", "frozen"])
def test_an_old_sidecar_is_applied_and_undone(sidecar: str, tmp_path: Path) -> None:
    image = scan(0) if sidecar in ("tissue", "nyul") else ill()
    path = FOLDER / f"sidecar_{sidecar}.json"
    there = ndflow.apply(image, path, dtype="float64")
    imap = ndflow.load(path)
    assert isinstance(imap, ndflow.IntensityMap)
    assert np.array_equal(there.image, np.where(image != 0, imap(image), 0))
    back = ndflow.apply(there.image, path, inverse=True, dtype="float64").image
    assert np.abs(back - image).max() < 1e-3
    ndflow.apply(image, path, output=tmp_path / "out.nii.gz")
    assert ndflow.load(tmp_path / "out.json") == imap


# ── studies ──────────────────────────────────────────────────────────────────────────────────────


def test_the_mode_centre_of_an_old_study_is_site() -> None:
    data = stored("study_centre/provenance.json")
    record = StudyRecord.read(FOLDER / "study_centre" / "provenance.json")
    assert data["settings"]["mode"] == "centre"
    del data["settings"]["lesions"]  # which is no setting any more
    assert record.settings == data["settings"] | {"mode": "site"}
    assert record.sites == data["centres"] == {"Aachen": 1, "Bonn": 1}
    assert (record.finished, record.normalised, record.failed) == (True, 2, 0)
    assert record.command == tuple(data["command"])
    assert record.versions["ndflow"] == "0.1.0"
    other = StudyRecord.read(FOLDER / "study_two_level" / "provenance.json")
    assert (other.settings["mode"], other.settings["target"]) == ("two-level", "tissue")


def test_a_finished_study_is_read_with_its_scans_and_their_sites() -> None:
    (run,) = read_finished([FOLDER / "study_centre"])
    assert run.study.mode.name == "site"
    assert {name: one.site for name, one in run.scans.items()} == {"s0": "Aachen", "s2": "Bonn"}
    for one in run.study.scans:
        assert one.tissues.complete
        assert one.covariates == {"age": {"s0": "30", "s2": "50"}[one.name]}
        paths = run.study.paths(one)
        sidecar, model = MapRecord.read(paths.sidecar), ScanModel.read(paths.model)
        assert sidecar.site == one.site
        assert sidecar.setting("mode") == "site"
        assert sidecar.mixture == model.mixture
        assert alike(model.mixture, ndflow.fit(scan(int(one.name[1]))).mixture)
        assert model.fingerprint
        # Through its site's map, after an alignment of its own.
        assert isinstance(sidecar.map, Chain)
        own, through_site = sidecar.map.maps
        assert isinstance(own, Affine)
        assert through_site == ndflow.load(FOLDER / "study_centre" / f"map_{one.site}.json")
    two_level = MapRecord.read(FOLDER / "study_two_level" / "maps" / "s0.json")
    assert isinstance(two_level.map, Chain)
    assert two_level.match is not None
    assert two_level.match.target is not None
    model = ScanModel.read(FOLDER / "study_two_level" / "models" / "s0.json")
    assert model.tissues is not None
    assert isinstance(model.mixture, GaussianMixture)


def test_an_old_evaluation_is_read() -> None:
    name = "study_centre/evaluation/evaluation.json"
    data, record = stored(name), EvaluationRecord.read(FOLDER / name)
    assert record.results == data["results"]
    assert record.conditions == tuple(data["conditions"])
    assert record.scans == ("s0", "s2")


def made_here(sidecar: Path, sha256: str) -> None:
    """Write the hash of another image into a sidecar of version 1, and seal it as version 1 did."""
    data = json.loads(sidecar.read_text(encoding="utf-8"))
    data["outputs"] = [sha256]
    sealed = {n: p for n, p in data.items() if n not in ("seal", "command", *ENVELOPE)}
    data["seal"] = hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()
    sidecar.write_text(json.dumps(data), encoding="utf-8")


def test_an_old_study_can_be_evaluated_and_reported(tmp_path: Path) -> None:
    for package in ("matplotlib", "jinja2", "sklearn"):
        pytest.importorskip(package)
    out = tmp_path / "study_centre"
    shutil.copytree(FOLDER / "study_centre", out)
    shutil.rmtree(out / "evaluation")
    table = (out / "scans.tsv").read_text(encoding="utf-8")
    (out / "scans.tsv").write_text(table.replace("/study/", f"{tmp_path}/"), encoding="utf-8")
    for tissue, share in tissue_maps().items():
        save(tmp_path / f"{tissue}.nii.gz", share)
    (out / "images").mkdir()
    for number in (0, 2):
        path = save(tmp_path / f"s{number}.nii.gz", scan(number))
        result = tmp_path / "made" / f"s{number}.nii.gz"
        result.parent.mkdir(exist_ok=True)
        ndflow.apply(path, out / "maps" / f"s{number}.json", output=result)
        shutil.copyfile(result, out / "images" / result.name)
        # The last bits of a result depend on the processor, so its hash does too.
        made_here(out / "maps" / f"s{number}.json", sha256_of(result))
    evaluation = ndflow.evaluate(out, permutations=0, trees=2)
    assert "study_centre" in evaluation.text
    page = ndflow.report(out, viewer=0).read_text(encoding="utf-8")
    assert "Aachen" in page
    assert "Bonn" in page
