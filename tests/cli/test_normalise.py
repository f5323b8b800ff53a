"""``ndflow normalise``: voxels, headers, records, several scans, memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Run, measured, needs_proc
from numpy.typing import NDArray
from one_scan import CLOSE, OTHER, SCAN, SOURCE, TARGET, TARGET_SD, exact_map, fitted
from phantoms import SHAPE, head, radii, save, voxels_of
from studies import record_of, sha256

import ndflow


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    return save(tmp_path / "scan.nii.gz", SCAN)


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with the mixture fitted to the other head."""
    ndflow.save(tmp_path / "target.json", TARGET)
    return tmp_path / "target.json"


@pytest.fixture
def normalised(run: Run, scan: Path, target: Path, tmp_path: Path) -> Run:
    """Return a function that normalises the scan to the target, with some options."""

    def command(*options: object, name: str = "out.nii.gz") -> Path:
        output = tmp_path / name
        done = run("normalise", scan, "--to", target, "-o", output, *options)
        assert done.code == 0, done.err
        return output

    return command


def test_masks_belong_to_the_scans_in_order(run: Run, target: Path, tmp_path: Path) -> None:
    images, masks, chosen = [], [], []
    for number, cut in enumerate((0.7, 0.95)):
        images.append(save(tmp_path / f"scan{number}.nii.gz", head(number + 5)))
        chosen.append(radii() < cut)
        masks.append(save(tmp_path / f"mask{number}.nii.gz", chosen[-1].astype(np.uint8)))
    done = run("normalise", *images, "--to", target, "-o", tmp_path / "out", "--mask", *masks)
    assert (done.code, done.errors) == (0, [])
    for number, inside in enumerate(chosen):
        record = record_of(tmp_path / "out" / f"scan{number}.nii.gz")
        assert record["voxels"]["fitted"] == np.count_nonzero(inside)
        mixture = ndflow.GaussianMixture.from_dict(record["mixture"])
        assert mixture == fitted(head(number + 5), inside).mixture
        assert [part["file"] for part in record["inputs"]["mask"]] == [str(masks[number])]


def test_excluded_voxels_are_not_fitted_but_mapped(run: Run, target: Path, tmp_path: Path) -> None:
    lesion = np.zeros(SHAPE, bool)
    lesion[8:14, 10:16, 6:12] = True
    voxels = np.where(lesion, 2000, SCAN).astype(np.int16)
    voxels[0, 0, 0] = 0
    image = save(tmp_path / "a.nii.gz", voxels)
    # Part of it lies outside the head, where there is nothing to exclude.
    wide = lesion.copy()
    wide[:2] = True
    mask = save(tmp_path / "lesion.nii.gz", wide.astype(np.uint8))
    output = tmp_path / "b.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, "--exclude", mask)
    assert (done.code, done.err) == (0, "")

    seen = (voxels != 0) & ~wide
    record = record_of(output)
    assert record["voxels"]["fitted"] == np.count_nonzero(seen)
    assert record["voxels"]["excluded"] == np.count_nonzero((voxels != 0) & wide)
    density = fitted(voxels, seen).mixture
    assert ndflow.GaussianMixture.from_dict(record["mixture"]) == density
    exact = exact_map(density, TARGET)(voxels)
    inside = voxels != 0
    assert np.abs(voxels_of(output) - exact)[inside].max() < CLOSE * TARGET_SD
    assert [part["file"] for part in record["inputs"]["lesion"]] == [str(mask)]


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


@pytest.mark.parametrize("name", OPTIONS)
def test_options_reach_the_result_and_its_record(normalised: Run, name: str) -> None:
    typed, recorded = OPTIONS[name]
    output = normalised(*typed.split())
    assert record_of(output)["settings"][name] == recorded
    same = output.read_bytes() == normalised(name="plain.nii.gz").read_bytes()
    assert same == (name == "solver")  # which computes the same map in another way
    inside = SCAN != 0
    if name in ("objective", "regularisation", "solver"):
        exact = exact_map(SOURCE, TARGET, **{name: recorded})(SCAN[inside])
        assert np.abs(voxels_of(output)[inside] - exact).max() < CLOSE * TARGET_SD


def test_the_record_holds_settings_and_checksums_of_inputs(
    run: Run, scan: Path, tmp_path: Path
) -> None:
    other = save(tmp_path / "other.nii", OTHER)
    masks = {
        name: save(tmp_path / f"{name}.nii.gz", inside.astype(np.uint8))
        for name, inside in {
            "mask": radii() < 0.95,
            "to_mask": radii() < 0.9,
            "exclude": radii() < 0.2,
        }.items()
    }
    output = tmp_path / "out.nii.gz"
    words = ["normalise", scan, "--to", other, "-o", output, "--mask", masks["mask"]]
    words += ["--to-mask", masks["to_mask"], "--exclude", masks["exclude"]]
    words += ["--range", "0", "100", "--set", "outside=zero"]
    done = run(*words)
    assert (done.code, done.errors) == (0, [])
    record = record_of(output)
    assert (record["format"], record["version"], record["kind"]) == ("ndflow", 2, "map")
    assert record["ndflow"] == ndflow.__version__
    assert record["command"] == ["ndflow", *map(str, words)]
    assert record["settings"] == {
        "mask": "given",
        "exclude": True,
        "max_bytes": 4 << 30,
        "effective_count": 1e4,
        "method": "ndflow",
        "proportions": "average",
        "freeze": [],
        "objective": "cramer",
        "regularisation": 1e-3,
        "solver": "exact",
        "landmarks": 11,
        "scale": None,
        "range": [0, 100],
        "outside": "zero",
        "dtype": "float32",
        "force": False,
    }
    files = {
        "image": scan,
        "mask": masks["mask"],
        "lesion": masks["exclude"],
        "target": other,
        "target_mask": masks["to_mask"],
    }
    assert record["inputs"] == {
        what: [{"file": str(file), "sha256": sha256(file)}] for what, file in files.items()
    }
    assert record["warnings"] == []
    assert record["clipped"] == 0
    assert record["fit"].startswith("converged")
    assert record["match"]["message"].startswith("converged")


def test_the_map_of_the_record_is_the_one_that_made_the_image(normalised: Run) -> None:
    output = normalised()
    imap = ndflow.load(output.with_name("out.json"))
    assert isinstance(imap, ndflow.IntensityMap)
    inside = SCAN != 0
    assert np.array_equal(voxels_of(output)[inside], imap(SCAN[inside]).astype(np.float32))


# ── determinism ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("low", "high"), [(-1000, 3000.5)])
def test_a_range_is_a_linear_change_of_units(normalised: Run, low: float, high: float) -> None:
    plain = voxels_of(normalised(name="plain.nii"))
    ranged = voxels_of(normalised("--range", low, high, name="ranged.nii"))
    bottom, top = TARGET.quantile([0.001, 0.999])
    inside = SCAN != 0
    expected = low + (high - low) * (plain[inside] - bottom) / (top - bottom)
    assert np.abs(ranged[inside] - expected).max() < CLOSE * (high - low)


def test_values_that_the_type_cannot_hold_are_clipped_and_counted(
    run: Run, scan: Path, target: Path, tmp_path: Path
) -> None:
    command = ("normalise", scan, "--to", target, "--range", "-2", 200)
    plain, small = tmp_path / "plain.nii", tmp_path / "small.nii"
    assert run(*command, "-o", plain).code == 0
    done = run(*command, "-o", small, "--dtype", "int8")
    assert done.code == 0
    unclipped = np.rint(voxels_of(plain))
    beyond = int(np.count_nonzero((unclipped < -128) | (unclipped > 127)))
    assert beyond > 100
    assert np.array_equal(voxels_of(small), np.clip(unclipped, -128, 127))
    assert record_of(small)["clipped"] == beyond
    assert f"warning: {small}: {beyond:,} voxels did not fit the type int8" in done.err


# ── outside the mask ──────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def surrounded(tmp_path: Path) -> tuple[Path, Path, NDArray[Any], NDArray[np.bool_]]:
    """A head with fat outside its mask, and zeros inside and outside: files and arrays."""
    voxels, inside = SCAN.copy(), radii() < 0.9
    voxels[12, 14, 5:15] = 0
    assert (voxels[~inside] == 0).any()
    assert (voxels[~inside] != 0).any()
    image = save(tmp_path / "image.nii.gz", voxels)
    return image, save(tmp_path / "mask.nii.gz", inside.astype(np.uint8)), voxels, inside


@pytest.mark.parametrize("outside", [None, "zero", "keep", "map"])
@pytest.mark.parametrize("masked", [True, False])
def test_voxels_outside_the_mask_are_treated_as_asked(
    run: Run,
    target: Path,
    tmp_path: Path,
    surrounded: tuple[Path, Path, NDArray[Any], NDArray[np.bool_]],
    outside: str | None,
    masked: bool,
) -> None:
    image, mask, voxels, inside = surrounded
    inside = inside if masked else voxels != 0
    options: list[object] = ["--mask", mask] if masked else []
    options += ["--set", f"outside={outside}"] if outside else []
    output = tmp_path / "out.nii.gz"
    done = run("normalise", image, "--to", target, "-o", output, *options)
    assert (done.code, done.errors) == (0, [])
    result = voxels_of(output)

    exact = exact_map(fitted(voxels, inside), TARGET)(voxels)
    stays = ~inside if outside in ("zero", "keep") else ~inside & (voxels == 0)
    if outside == "map":
        stays = np.zeros(SHAPE, bool)
    assert np.abs(result - exact)[~stays].max() < CLOSE * TARGET_SD
    assert np.array_equal(result[stays], voxels[stays] if outside == "keep" else 0 * voxels[stays])


@pytest.fixture
def study(tmp_path: Path) -> list[Path]:
    """Three scans."""
    (tmp_path / "study").mkdir()
    return [save(tmp_path / "study" / f"{n}.nii.gz", head(n)) for n in range(3)]


def test_the_list_of_failures_is_removed_once_nothing_fails(
    run: Run, study: list[Path], target: Path, tmp_path: Path
) -> None:
    missing = tmp_path / "3.nii.gz"
    folder = tmp_path / "out"
    assert run("normalise", *study, missing, "--to", target, "-o", folder).code == 1
    save(missing, head(3))
    done = run("normalise", *study, missing, "--to", target, "-o", folder, "--force")
    assert done.well
    assert not (folder / "failures.tsv").exists()
    assert (folder / "3.nii.gz").exists()


LARGE = (160, 200, 160)


@needs_proc
def test_a_volume_costs_at_most_two_and_a_half_times_its_size_in_float32(
    scan: Path, target: Path, tmp_path: Path
) -> None:
    small = head(0, shape=(40, 50, 40))  # enlarged, which is quicker than drawing so many voxels
    noise = 8 * np.abs(np.random.default_rng(0).standard_normal(LARGE, np.float32))
    save(tmp_path / "large.nii.gz", np.kron(small, np.ones((4, 4, 4), np.int16)) + noise)
    commands = [
        ["normalise", image, "--to", target, "-o", tmp_path / f"{number}.nii", "--mask", "auto"]
        for number, image in enumerate((scan, tmp_path / "large.nii.gz"))
    ]
    codes, (least, most), err = measured(*commands)
    assert codes == [0, 0], err
    assert most - least < 2.5 * 4 * np.prod(LARGE)
