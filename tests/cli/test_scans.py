"""``ndflow normalise``, ``apply``, ``fit`` and ``reference``: what is typed reaches the results."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channel_phantoms import NAMES, Desk, words
from commands import Run, measured, needs_proc
from deepbet_stand_in import StandIn
from one_scan import OTHER, SCAN, TARGET, fitted
from pages import ReportPage
from phantoms import SHAPE, head, radii, save, voxels_of
from studies import read_json, record_of, sha256

import ndflow
from ndflow.subject.target import builtin_file

INSIDE = SCAN != 0
SPAN = float(np.ptp(SCAN))


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", SCAN)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with the mixture fitted to the other head."""
    ndflow.save(tmp_path / "target.json", TARGET)
    return tmp_path / "target.json"


# ── normalise ────────────────────────────────────────────────────────────────────────────────────


def test_masks_belong_to_the_scans_in_order(run: Run, target: Path, tmp_path: Path) -> None:
    images, masks, chosen = [], [], []
    for number, cut in enumerate((0.7, 0.95)):
        images.append(save(tmp_path / f"scan{number}.nii.gz", head(number + 5)))
        chosen.append(radii() < cut)
        masks.append(save(tmp_path / f"mask{number}.nii.gz", chosen[-1].astype(np.uint8)))
    lesion = save(tmp_path / "lesion.nii.gz", (radii() < 0.2).astype(np.uint8))
    command = ("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", *masks)
    done = run(*command, "--exclude", "none", lesion)
    assert (done.code, done.errors) == (0, [])
    chosen[1] &= radii() >= 0.2
    for number, inside in enumerate(chosen):
        record = record_of(tmp_path / "out" / f"scan{number}.nii.gz")
        assert record["voxels"]["fitted"] == np.count_nonzero(inside)
        mixture = ndflow.GaussianMixture.from_dict(record["mixture"])
        assert mixture == fitted(head(number + 5), inside).mixture
        assert [part["file"] for part in record["inputs"]["mask"]] == [str(masks[number])]
        assert ("lesion" in record["inputs"]) == bool(number)


def test_scans_have_a_report_of_their_own(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    out, report = tmp_path / "out.nii.gz", tmp_path / "report.html"
    command = ("normalise", scan, "--to", target, "-o", out, "--report", report)
    done = run(*command)
    page, match = ReportPage(report.read_text("utf-8")), record_of(out)["match"]
    assert [*page.rows] == [*page.embedded()] == ["out"]
    assert not {"Site", "To check"} & {*page.texts("th")}
    (said,) = [line for line in done.out.splitlines() if line.startswith("quality: ")]
    left = match["divergence"]["after"] / match["divergence"]["before"]
    assert f" {int(100 * (1 - left))}% " in said
    assert f"{match['slopes'][1]:.2g} times" in said
    refused = run(*command[:5], tmp_path / "new.nii.gz", *command[6:])
    assert (refused.code, str(report) in refused.err) == (2, True)
    assert not (tmp_path / "new.nii.gz").exists()
    assert run(*command, "--force").well
    report.write_text("<p>mine</p>")
    refused = run(*command, "--force")
    assert (refused.code, str(report) in refused.err) == (2, True)
    assert report.read_text() == "<p>mine</p>"
    assert run(*command, "--joint").code == 2


OPTIONS: dict[str, tuple[str, Any]] = {  # as they are typed, and as they are recorded
    "objective": ("--set objective=l2", "l2"),
    "regularisation": ("--set regularisation=0.1", 0.1),
    "solver": ("--set solver=rk4", "rk4"),
    "effective_count": ("--set effective-count=200", 200),
    "freeze": ("--set freeze=1,weight<0.05", ["1", "weight<0.05"]),
    "outside": ("--set outside=map", "map"),
    "method": ("--method nyul", "nyul"),
    "scale": ("--scale standard", "standard"),
    "range": ("--range -1000 3000.5", [-1000, 3000.5]),
    "dtype": ("--dtype float64", "float64"),
}


def test_options_reach_the_result_and_its_record(run: Run, scan: Path, target: Path) -> None:
    output = scan.with_name("out.nii.gz")
    command = ("normalise", scan, "--to", target, "-o", output, "--force")
    assert run(*command).well
    plain = sha256(output)
    for name, (options, recorded) in OPTIONS.items():
        assert run(*command, *options.split()).code == 0, name
        assert record_of(output)["settings"][name] == recorded
        same = sha256(output) == plain
        assert same == (name == "solver")  # which computes the same map in another way


def test_the_record_holds_settings_and_checksums_of_inputs(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    files = {"image": scan, "target": save(tmp_path / "other.nii", OTHER)}
    for name, cut in {"mask": 0.95, "target_mask": 0.9, "lesion": 0.2}.items():
        files[name] = save(tmp_path / f"{name}.nii.gz", (radii() < cut).astype(np.uint8))
    output = tmp_path / "out.nii.gz"
    command = ["normalise", scan, "--to", files["target"], "-o", output, "--mask", files["mask"]]
    command += ["--to-mask", files["target_mask"], "--exclude", files["lesion"]]
    assert run(*command, "--range", 0, 100).code == 0
    record = record_of(output)
    assert record["command"] == ["ndflow", *map(str, command), "--range", "0", "100"]
    assert record["settings"].items() >= {"mask": "given", "exclude": True}.items()
    assert record["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}] for what, file in files.items()
    }
    imap = ndflow.load(tmp_path / "out.json")
    assert np.array_equal(voxels_of(output)[INSIDE], imap(SCAN[INSIDE]).astype(np.float32))


LARGE = (160, 200, 160)


@needs_proc
def test_a_volume_costs_at_most_twice_its_size_in_float32(
    scan: Path, target: Path, tmp_path: Path
) -> None:
    small = head(0, shape=(40, 50, 40))  # enlarged, which is quicker than drawing so many voxels
    noise = 8 * np.abs(np.random.default_rng(0).standard_normal(LARGE, np.float32))
    save(tmp_path / "large.nii.gz", np.kron(small, np.ones((4, 4, 4), np.int16)) + noise)
    commands = [
        ["normalise", image, "--to", target, "-o", tmp_path / f"{number}.nii"]
        for number, image in enumerate((scan, tmp_path / "large.nii.gz"))
    ]
    (code, least), (other, most) = measured(*commands)
    assert (code, other) == (0, 0)
    assert most - least < 2 * 4 * np.prod(LARGE)


# ── apply ────────────────────────────────────────────────────────────────────────────────────────


def test_the_inverse_gives_the_image_back(run: Run, process: Run, scan: Path, target: Path) -> None:
    there, back, record = (scan.with_name(name) for name in ("a.nii.gz", "b.nii.gz", "a.json"))
    assert run("normalise", scan, "--to", target, "-o", there).well
    command = ("apply", there, "--map", record, "--inverse", "-o", back)
    assert process(*command).well
    assert np.abs(voxels_of(back) - SCAN).max() < 1e-5 * SPAN  # only rounding to float32
    made = record_of(back)
    assert made["command"] == ["ndflow", *map(str, command)]
    assert made["settings"]["inverse"] is True
    assert made["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}]
        for what, file in {"image": there, "map": record}.items()
    }
    done = run("apply", back, "--map", record, "--inverse", "-o", scan.with_name("c.nii.gz"))
    assert done.code == 2  # not the image that it made
    assert "--other-image" in done.errors[0]


def test_voxels_that_were_kept_outside_are_undone_with_the_same_mask(
    run: Run, inputs: Path
) -> None:
    keep = ("--mask", inputs / "mask.nii.gz", "--set", "outside=keep")
    to = ("--to", inputs / "other.nii.gz", "-o", inputs / "x.nii.gz")
    assert run("normalise", inputs / "scan.nii.gz", *to, *keep).code == 0
    undo = ("apply", inputs / "x.nii.gz", "--map", inputs / "x.json", "--inverse", "-o")
    done = run(*undo, inputs / "y.nii.gz")
    assert (done.code, done.err.startswith(f"warning: {inputs / 'x.json'}: ")) == (0, True)
    assert run(*undo, inputs / "z.nii.gz", *keep).well
    np.testing.assert_allclose(voxels_of(inputs / "z.nii.gz"), SCAN, atol=0.01)


# ── fit and reference ────────────────────────────────────────────────────────────────────────────


def test_masks_and_weights_belong_to_the_sources_in_order(
    run: Run, process: Run, tmp_path: Path
) -> None:
    heads = [head(number, gain=1 + number) for number in range(3)]
    images = [save(tmp_path / f"scan{n}.nii.gz", voxels) for n, voxels in enumerate(heads)]
    model, output, lesion = tmp_path / "m.json", tmp_path / "r.json", radii() < 0.2
    insides = [radii() < cut for cut in (0.7, 0.9)]
    masks = [save(tmp_path / f"m{n}.nii", m.astype(np.uint8)) for n, m in enumerate(insides)]
    lesions = [save(tmp_path / f"l{n}.nii", lesion.astype(np.uint8)) for n in range(2)]
    assert run("fit", images[1], "-o", model).well
    command = ("reference", images[0], model, images[2], "-o", output, "--weights", 1, 0.5, 3)
    assert process(*command, "--mask", *masks, "--exclude", *lesions).code == 0
    mixtures = [
        fitted(heads[0], insides[0] & ~lesion).mixture,
        fitted(heads[1]).mixture,
        fitted(heads[2], insides[1] & ~lesion).mixture,
    ]
    expected = ndflow.reference(mixtures, weights=[1, 0.5, 3], average="quantile")
    assert ndflow.load(output).mixture == expected.mixture
    found = read_json(output)["inputs"]
    assert [part["name"] for part in found] == ["scan0", "m", "scan2"]
    assert all(
        sha256(source) in part["sha256"]
        for part, source in zip(found, (images[0], model, images[2]), strict=True)
    )
    assert str(tmp_path) not in output.read_text(encoding="utf-8")


def test_a_reference_that_would_lack_a_scan_is_not_written(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    constant = save(tmp_path / "constant.nii.gz", np.full(SHAPE, 7, np.int16))
    output = tmp_path / "reference.json"
    done = run("reference", scan, constant, "-o", output)
    assert (done.code, output.exists()) == (2, False)
    assert done.errors[0].startswith(f"error: {constant}: ")
    assert done.errors[-1].startswith(f"error: {output}: no reference")


BUILTIN = "builtin:T1w@1"
SHA256 = "77c130ed554ba78b060115cf4a438d9a0e552bba17903004475a272c2f387358"


@pytest.mark.parametrize("method", ["ndflow", "nyul"])
def test_a_single_scan_is_brought_to_the_built_in_reference(
    run: Run, scan: Path, method: str
) -> None:
    assert hashlib.sha256(builtin_file("T1w@1").read_bytes()).hexdigest() == SHA256
    command = ("normalise", scan, "--to", "builtin:T1w", "-o", scan.with_name("out.nii.gz"))
    assert run(*command, "--method", method).code == 0
    record = read_json(scan.with_name("out.json"))
    assert record["target"]["name"] == BUILTIN
    assert record["inputs"]["target"] == [{"file": BUILTIN, "sha256": SHA256}]
    assert record["settings"]["scale"] == "positive"


# ── channels of one subject ──────────────────────────────────────────────────────────────────────


def test_any_of_the_sidecars_undoes_a_joint_map(run: Run, subject: Desk, tmp_path: Path) -> None:
    made = tmp_path / "made"
    assert run("normalise", *subject.words, "--joint", "--to", subject.joint, "-o", made).code == 0
    results = {name: made / file.name for name, file in subject.files.items()}
    for name in NAMES:
        sidecar, own = made / f"0_{name}.json", tmp_path / name
        assert read_json(sidecar)["channel"] == name
        assert run("apply", *words(results), "--map", sidecar, "--inverse", "-o", own).well
        for file in subject.files.values():
            original = voxels_of(file)
            assert np.abs(voxels_of(own / file.name) - original).max() < 5e-3 * original.std()
    record = {**read_json(sidecar), "channel": "PD"}
    del record["checksum"]
    sidecar.write_text(json.dumps(record), "utf-8")
    ran = run("apply", *words(results), "--map", sidecar, "--inverse", "-o", tmp_path / "none")
    assert "not the image that" in ran.errors[0]


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
def test_what_is_outside_the_mask_is_treated_as_in_one_channel(
    run: Run, subject: Desk, tmp_path: Path, outside: str | None
) -> None:
    scan = voxels_of(subject.files["T1w"])
    mask = save(tmp_path / "mask.nii.gz", (scan > 500).astype(np.uint8))
    imap = ndflow.Affine([[0.5, 0.1], [-0.2, 0.8]], [30.0, 40.0])
    ndflow.save(tmp_path / "map.json", imap)
    option = () if outside is None else ("--set", f"outside={outside}")
    command = ("apply", *subject.words, "--map", tmp_path / "map.json", "--mask", mask, *option)
    assert run(*command, "-o", tmp_path / "made").well
    files = [voxels_of(file) for file in subject.files.values()]
    moved = imap(np.stack([file.ravel() for file in files], axis=1))
    stays = {None: scan == 0, "map": scan < -1}.get(outside, scan <= 500)
    for place, file in enumerate(subject.files.values()):
        kept = files[place] if outside == "keep" else 0
        expected = np.where(stays, kept, moved[:, place].reshape(scan.shape))
        assert np.abs(voxels_of(tmp_path / "made" / file.name) - expected).max() < 1e-3


def test_a_file_with_an_equals_sign_is_still_a_file(
    run: Run, subject: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(subject.files["T1w"], "run=1.nii.gz")
    assert run("fit", "run=1.nii.gz", "-o", "plain.json").well
    assert ndflow.load("plain.json").channels == 1
    shutil.copy(subject.files["FLAIR"], "desc=x.nii.gz")
    named = ("T1w=run=1.nii.gz", "FLAIR=desc=x.nii.gz")
    assert run("fit", *named, "--joint", "-o", "joint.json").well
    assert ndflow.load("joint.json").channels == 2


def test_the_brain_is_found_in_the_channel_t1w(run: Run, deepbet: StandIn, tmp_path: Path) -> None:
    affine, model = np.diag([6.0, 6.0, 6.0, 1.0]), tmp_path / "model.json"
    brain, other = (head(seed, shape=(30, 34, 28)) for seed in (0, 1))
    files = {"FLAIR": save(tmp_path / "a.nii.gz", other, affine)}
    files["T1w"] = save(tmp_path / "b.nii.gz", brain, affine)
    command = ("--joint", "--mask", "brain", "-o", model)
    assert run("fit", *words(files), *command).code == 0
    assert read_json(model)["settings"]["mask"] == "brain"
    counts = read_json(model)["voxels"]
    assert counts["fitted"] + counts["outliers"] == np.count_nonzero(brain > brain.max() / 2)
    ran = run("fit", f"FLAIR={files['FLAIR']}", f"T2w={files['T1w']}", *command, "--force")
    assert ran.code == 2
    assert "the channels are FLAIR" in ran.err
