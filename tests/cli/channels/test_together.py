"""Several channels with ``--joint``: one map, one file, and back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channel_phantoms import NAMES, Desk, channels, words
from commands import Run, typed
from numpy.typing import NDArray
from phantoms import save, voxels_of

import ndflow
from ndflow.files.model_files import read_model
from ndflow.files.stream import sha256_of


@pytest.fixture(scope="module")
def out(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The subject, normalised jointly."""
    folder = tmp_path_factory.mktemp("joint") / "out"
    typed("normalise", *desk.words, "--joint", "--to", desk.joint, "-o", folder, "-q")
    return folder


def rows(files: dict[str, Path], inside: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack([voxels_of(file)[inside] for file in files.values()], axis=1)


def results(desk: Desk, folder: Path) -> dict[str, Path]:
    return {name: folder / file.name for name, file in desk.files.items()}


def distance(points: NDArray[np.float64], goal: ndflow.GaussianMixture) -> float:
    """Return the mean distance of some projections from those of a sample of the goal."""
    sample = goal.sample(20_000, np.random.default_rng(0))
    levels = (np.arange(200) + 0.5) / 200
    angles = np.linspace(0, np.pi, 16, endpoint=False)
    slices = [(np.cos(a), np.sin(a)) for a in angles]
    quantiles = [(np.quantile(points @ w, levels), np.quantile(sample @ w, levels)) for w in slices]
    return float(np.mean([np.abs(one - two).mean() for one, two in quantiles]))


def test_images_keep_their_names_and_have_sidecars(run: Run, desk: Desk, tmp_path: Path) -> None:
    ran = run("normalise", *desk.words, "--joint", "--to", desk.joint, "-o", tmp_path / "out")
    assert ran.well
    assert ran.out == f"wrote 2 images and their sidecars to {tmp_path / 'out'}\n"
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["0_FLAIR.json", "0_FLAIR.nii.gz", "0_T1w.json", "0_T1w.nii.gz"]


def test_every_voxel_is_where_the_map_puts_it(desk: Desk, out: Path) -> None:
    inside = voxels_of(desk.files["T1w"]) != 0
    imap = ndflow.load(out / "0_T1w.json")
    assert imap.channels == 2
    found = rows(results(desk, out), inside)
    assert np.abs(found - imap(rows(desk.files, inside))).max() < 0.02  # float32, around 500


def test_results_are_on_the_positive_scale_and_like_the_reference(desk: Desk, out: Path) -> None:
    inside = voxels_of(desk.files["T1w"]) != 0
    z = (rows(results(desk, out), inside) - 500) / 125
    goal = ndflow.load(desk.joint).mixture
    assert np.abs(z.mean(axis=0)).max() < 0.02
    assert np.abs(np.cov(z.T) - goal.covariance()).max() < 0.05
    before = rows(desk.files, inside)
    aligned = (before - before.mean(axis=0)) / before.std(axis=0)
    assert distance(z, goal) < 0.4 * distance(aligned, goal)


def test_background_stays_zero(desk: Desk, out: Path) -> None:
    outside = voxels_of(desk.files["T1w"]) == 0
    for file in results(desk, out).values():
        assert (voxels_of(file)[outside] == 0).all()


def test_any_of_the_sidecars_undoes_the_map(
    run: Run, desk: Desk, out: Path, tmp_path: Path
) -> None:
    assert ndflow.load(out / "0_T1w.json") == ndflow.load(out / "0_FLAIR.json")
    done = run(
        *("apply", *words(results(desk, out)), "--map", out / "0_FLAIR.json"),
        *("--inverse", "-o", tmp_path / "back"),
    )
    assert done.well
    for name, file in desk.files.items():
        original = voxels_of(file)
        back = voxels_of(tmp_path / "back" / file.name)
        assert np.abs(back - original).max() < 5e-3 * original.std(), name


def test_a_map_is_applied_to_another_subject(
    run: Run, desk: Desk, out: Path, tmp_path: Path
) -> None:
    files = {name: desk.folder / f"1_{name}.nii.gz" for name in NAMES}
    ran = run("apply", *words(files), "--map", out / "0_T1w.json", "-o", tmp_path / "out")
    assert ran.well
    inside = voxels_of(files["T1w"]) != 0
    expected = ndflow.load(out / "0_T1w.json")(rows(files, inside))
    made = {name: tmp_path / "out" / file.name for name, file in files.items()}
    assert np.abs(rows(made, inside) - expected).max() < 0.02


def test_sidecars_say_which_channel_they_describe(desk: Desk, out: Path) -> None:
    for name in NAMES:
        kind, payload, _ = read_model(out / f"0_{name}.json")
        assert kind == "map"
        assert payload["channel"] == name
        assert payload["channel_names"] == [*NAMES]
        assert payload["settings"]["joint"] is True
        assert payload["settings"]["scale"] == "positive"
        image = f"0_{name}.nii.gz"
        assert payload["outputs"] == {image: sha256_of(out / image)}
        read = {what: files[0]["sha256"] for what, files in payload["inputs"].items()}
        assert read == {
            **{one: sha256_of(file) for one, file in desk.files.items()},
            "target": sha256_of(desk.joint),
        }
        assert payload["voxels"]["fitted"] > 1000
        assert payload["match"]["message"].startswith(
            "maps of each channel by itself, then a joint"
        )
        distances = payload["joint"]
        assert distances["kept"] is True
        assert distances["finished"] < 0.3 * distances["channelwise"]
        assert distances["determinants"][0] > 0


def test_the_file_of_a_subject_holds_a_joint_density(desk: Desk) -> None:
    path = desk.folder / "joint1.json"
    kind, payload, _ = read_model(path)
    assert kind == "mixture"
    assert payload["channel_names"] == [*NAMES]
    assert len(payload["marginals"]) == 2
    assert "nii" not in path.read_text()
    mixture = ndflow.load(path)
    images = channels(1, gains=(1.3, 0.7), correlation=0.6)
    inside = images["T1w"] != 0
    data = np.stack([image[inside] for image in images.values()], axis=1).astype(float)
    assert np.allclose(mixture.mean(), data.mean(axis=0), rtol=0.01)
    correlation = mixture.covariance()[0, 1] / np.sqrt(np.prod(np.diagonal(mixture.covariance())))
    assert correlation == pytest.approx(np.corrcoef(data.T)[0, 1], abs=0.02)


def test_a_joint_reference_knows_its_channels(desk: Desk) -> None:
    made = ndflow.load(desk.joint)
    assert made.channel_names == NAMES
    assert made.scans == 2
    models = [desk.folder / f"joint{seed}.json" for seed in (1, 2)]
    assert ndflow.reference(models).mixture == made.mixture
    assert ndflow.reference(models).channel_names == NAMES


def test_a_joint_mixture_of_one_subject_is_a_target_with_units(
    run: Run, desk: Desk, tmp_path: Path
) -> None:
    other = desk.folder / "joint1.json"
    ran = run("normalise", *desk.words, "--joint", "--to", other, "-o", tmp_path / "out")
    assert ran.code == 0
    inside = voxels_of(desk.files["T1w"]) != 0
    made = rows(results(desk, tmp_path / "out"), inside)
    assert np.allclose(made.mean(axis=0), ndflow.load(other).mean(), rtol=0.02)


def test_a_range_is_that_of_each_channel(run: Run, desk: Desk, tmp_path: Path) -> None:
    ran = run(
        *("normalise", *desk.words, "--joint", "--to", desk.joint),
        *("--range", 0, 1000, "-o", tmp_path / "out"),
    )
    assert ran.well
    inside = voxels_of(desk.files["T1w"]) != 0
    for file in results(desk, tmp_path / "out").values():
        low, high = np.quantile(voxels_of(file)[inside], (0.001, 0.999))
        assert abs(low) < 60
        assert abs(high - 1000) < 60


# ── which voxels ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def holes(desk: Desk, tmp_path: Path) -> dict[str, Path]:
    """The subject with voxels that are 0 in one channel, and not finite in one."""
    files = {}
    for name, file in desk.files.items():
        image = voxels_of(file, np.float32)
        if name == "FLAIR":
            image[12, 14, 10], image[12, 14, 11] = np.nan, 0
        else:
            image[12, 14, 9] = np.inf
        files[name] = save(tmp_path / f"{name}.nii.gz", image)
    return files


def test_what_is_not_finite_in_one_channel_stays_as_it_is_in_all(
    run: Run, desk: Desk, holes: dict[str, Path], tmp_path: Path
) -> None:
    ran = run("normalise", *words(holes), "--joint", "--to", desk.joint, "-o", tmp_path / "out")
    assert ran.code == 0
    for file in holes.values():
        assert f"{file}: 1 voxel NaN or infinite, left out of the fit" in ran.err
        before, after = voxels_of(file), voxels_of(tmp_path / "out" / file.name)
        for at in ((12, 14, 10), (12, 14, 9)):
            assert np.array_equal(after[at], before[at], equal_nan=True)
        assert after[12, 14, 11] != 0  # 0 in one channel only: not background
    record = read_model(tmp_path / "out" / "T1w.json").payload
    assert record["voxels"]["not_finite"] == 2


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
def test_what_is_outside_the_mask_is_treated_as_in_one_channel(
    run: Run, desk: Desk, tmp_path: Path, outside: str | None
) -> None:
    scan = voxels_of(desk.files["T1w"])
    mask = save(tmp_path / "mask.nii.gz", (scan > 500).astype(np.uint8))
    imap = ndflow.Affine([[0.5, 0.1], [-0.2, 0.8]], [30.0, 40.0])
    ndflow.save(tmp_path / "map.json", imap)
    option = () if outside is None else ("--set", f"outside={outside}")
    command = ("apply", *desk.words, "--map", tmp_path / "map.json", "--mask", mask, *option)
    assert run(*command, "-o", tmp_path / "out").well
    moved = imap(rows(desk.files, np.ones(scan.shape, dtype=bool)))
    background, rest = scan == 0, (scan != 0) & (scan <= 500)
    for place, file in enumerate(desk.files.values()):
        expected = moved[:, place].reshape(scan.shape)
        if outside is None:
            expected[background] = 0
        elif outside == "zero":
            expected[background | rest] = 0
        elif outside == "keep":
            expected[background | rest] = voxels_of(file)[background | rest]
        assert np.abs(voxels_of(tmp_path / "out" / file.name) - expected).max() < 1e-3


def test_a_lesion_is_not_seen_but_mapped(run: Run, desk: Desk, tmp_path: Path) -> None:
    lesion = np.zeros(voxels_of(desk.files["T1w"]).shape, np.uint8)
    lesion[8:14, 10:16, 8:12] = 1
    mask = save(tmp_path / "lesion.nii.gz", lesion)
    bright = {}
    for name, file in desk.files.items():
        image = voxels_of(file, np.float32)
        image[lesion == 1] *= 5
        bright[name] = save(tmp_path / f"{name}.nii.gz", image)
    models = []
    for number, files in enumerate((desk.files, bright)):
        models.append(tmp_path / f"{number}.json")
        command = ("fit", *words(files), "--joint", "--exclude", mask, "-o", models[-1])
        assert run(*command).code == 0
    one, two = (ndflow.load(model) for model in models)
    assert one == two
    payload = read_model(models[0]).payload
    assert payload["voxels"]["excluded"] == lesion.sum()
    assert payload["settings"]["exclude"] is True
