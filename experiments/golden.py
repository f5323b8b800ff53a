"""Record what every command and method computes on real scans, and check it after a change.

    python experiments/golden.py record golden.json [COHORT]
    python experiments/golden.py check golden.json [COHORT]

COHORT is a BIDS folder with masks and tissue probability maps (default: ``../shared/cohort``);
twelve of its scans are used, the first four of each site. Scans of several channels are looked for
in ``../scans/channels`` beside it. The voxels of all images and the coefficients of all intensity
maps are hashed, so one changed bit shows. Numbers in tables must agree to 1e-9, since a sum in
another order changes no method. The hashes hold for one kind of processor only (numpy's vectorised
loops round differently on others), so the file is not kept in the repository: record it before a
refactoring, check it after each step. The transforms for TorchIO and MONAI run in ``.venv-torch``
(``make test-torch`` makes it).
"""

from __future__ import annotations

import csv
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nibabel
import numpy as np

PER_SITE = 4
TOLERANCE = 1e-9
METHODS = (
    "ndflow",
    "affine",
    "zscore",
    "nyul",
    "quantile",
    "hellier",
)
STUDIES: dict[str, tuple[str, ...]] = {
    **{f"method-{name}": ("--method", name) for name in METHODS},
    "site": ("--mode", "site"),
    "two-level": ("--mode", "two-level", "--set", "average=quantile"),
    "tissue": ("--proportions", "tissue", "--mode", "two-level"),
    "tissue-individual": ("--proportions", "tissue"),
    "adaptive": ("--proportions", "adaptive"),
    "adaptive-two-level": ("--proportions", "adaptive", "--mode", "two-level"),
    "rk4": ("--set", "solver=rk4", "--set", "regularisation=1e-2"),
    "standard": ("--scale", "standard"),
    "range": ("--range", "0", "1000", "--dtype", "int16", "--set", "outside=zero"),
    "freeze": ("--set", "freeze=weight<0.05", "--set", "outside=keep"),
    "nyul-7": ("--method", "nyul", "--set", "landmarks=7"),
    "auto-mask": ("--mask", "auto", "--set", "effective-count=3e3"),
    "balance": ("--balance", "sex", "--mode", "two-level"),
}
CHANNELS = ("T1w", "FLAIR")
TRANSFORMS = """
import sys
import nibabel, numpy, torch, torchio
from monai.data import MetaTensor
from ndflow.integrations import monai, torchio as transforms
image, mask, out = sys.argv[1:]
scan = nibabel.load(image)
subject = torchio.Subject(t1=torchio.ScalarImage(image), brain=torchio.LabelMap(mask))
done = transforms.NDFlow("builtin:T1w", "brain")(subject)
tensor = MetaTensor(torch.from_numpy(scan.get_fdata(dtype="float32"))[None], affine=scan.affine)
for name, voxels in {
    "torchio": done.t1.numpy()[0],
    "torchio-undone": done.apply_inverse_transform().t1.numpy()[0],
    "monai": monai.NDFlow("builtin:T1w")(tensor).numpy()[0],
}.items():
    nibabel.save(nibabel.Nifti1Image(voxels, scan.affine), f"{out}/{name}.nii.gz")
"""


def main() -> int:
    """Record or check."""
    what, path = sys.argv[1], Path(sys.argv[2])
    here = Path(__file__).resolve().parents[2] / "shared" / "cohort"
    cohort = Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else here
    with tempfile.TemporaryDirectory() as folder:
        run_everything(cohort, Path(folder))
        found = {"hashes": dict(hashes(Path(folder))), "numbers": dict(numbers(Path(folder)))}
    if what == "record":
        path.write_text(json.dumps(found, indent=1, sort_keys=True))
        print(f"{len(found['hashes'])} hashes and {len(found['numbers'])} tables in {path}")
        return 0
    wrong = differences(json.loads(path.read_text()), found)
    print(
        "\n".join(wrong) or f"{len(found['hashes'])} hashes, {len(found['numbers'])} tables agree"
    )
    return 1 if wrong else 0


def run_everything(cohort: Path, out: Path) -> None:
    """Run every command."""
    scans = chosen_scans(cohort)
    write_table(cohort, scans, out / "scans.tsv", tissues=False)
    write_table(cohort, scans, out / "tissues.tsv", tissues=True)
    for name, words in STUDIES.items():
        table = out / ("scans.tsv" if name == "adaptive-two-level" else "tissues.tsv")
        ndflow("cohort", table, out / name, "--no-report", "-j", "2", *words)
    images = [file(cohort, scan, "T1w") for scan in scans]
    masks = [file(cohort, scan, "desc-brain_mask") for scan in scans]
    fit = out / "fit"
    ndflow("fit", *images, "-o", fit, "-j", "2", "--mask", *masks)
    models = sorted(fit.glob("*.json"))
    for name, words in {
        "plain": (),
        "quantile": ("--set", "average=quantile"),
        "weights": ("--weights", *map(str, range(1, len(models) + 1))),
    }.items():
        ndflow("reference", *models, "-o", out / f"reference-{name}.json", "-q", *words)
    maps = tissue_maps(cohort, scans)
    reference = out / "reference-images.json"
    ndflow("reference", *images, "-o", reference, "--mask", *masks, *maps, "--method", "nyul")
    source, mask, target, to_mask = images[0], masks[0], images[-1], masks[-1]
    common = ("--mask", mask)
    own = tissue_maps(cohort, scans[:1])
    for name, words in {
        "image": ("--to", target, "--to-mask", to_mask),
        "standard": ("--to", target, "--to-mask", to_mask, "--scale", "standard"),
        "reference": ("--to", reference, "--exclude", file(cohort, scans[0], "label-CSF_probseg")),
        "nyul": ("--to", reference, "--method", "nyul"),
        "tissue": ("--to", reference, "--proportions", "tissue", *own),
        **{
            f"image-{m}": ("--to", target, "--to-mask", to_mask, "--method", m) for m in METHODS[1:]
        },
    }.items():
        ndflow("normalise", source, "-o", out / f"normalise-{name}.nii.gz", *common, *words)
    done = out / "normalise-image.nii.gz"
    saved = out / "normalise-image.json"
    back = out / "apply-inverse.nii.gz"
    ndflow("apply", source, "--map", saved, "-o", out / "apply.nii.gz", "--dtype", "float64")
    ndflow("apply", done, "--map", saved, "--inverse", "-o", back, "--set", "outside=map")
    labels = ("--participant-label", *scans)
    bids = out / "bids"
    ndflow("bids", cohort, bids, "participant", *labels[:5])
    ndflow("bids", cohort, bids, "group", *labels, "--mode", "site", "--no-report")
    runs = [out / name for name in ("method-ndflow", "method-nyul", "two-level", "method-affine")]
    words = ("--covariate", "age", "--permutations", "3", "--trees", "20", "-j", "2")
    ndflow("evaluate", *runs, "-o", out / "evaluation", *words)
    ndflow("report", out / "method-ndflow")
    prepare_some(out)
    run_channels(cohort.parent / "scans" / "channels", out)
    run_transforms(images[0], masks[0], out / "transforms")
    ndflow("demo", out / "demo", "-q")


def prepare_some(out: Path) -> None:
    """Prepare the first two scans, which have masks, and normalise them with what was found."""
    lines = (out / "scans.tsv").read_text().splitlines(keepends=True)
    (out / "raw.tsv").write_text("".join(lines[:3]))
    ndflow("prepare", out / "raw.tsv", out / "prepare", "--no-report", "-j", "2")
    ndflow("cohort", out / "prepare" / "study.tsv", out / "prepared-study", "--no-report")
    ndflow("cohort", out / "raw.tsv", out / "prepared-cohort", "--prepare", "--no-report")


def run_channels(folder: Path, out: Path) -> None:
    """Normalise several channels, each by itself and jointly."""
    people = sorted({path.name.split("_")[0] for path in folder.glob("*_T1w.nii.gz")})
    files = {one: [folder / f"{one}_{name}.nii.gz" for name in CHANNELS] for one in people}
    lines = ["\t".join(["subject", *CHANNELS])]
    lines += ["\t".join([one, *map(str, paths)]) for one, paths in files.items()]
    (out / "channels.tsv").write_text("\n".join(lines) + "\n")
    for name, words in {"channels": (), "joint": ("--joint",)}.items():
        common = ("--channels", *CHANNELS, "--no-report", *words)
        ndflow("cohort", out / "channels.tsv", out / name, *common)
        named = [f"{c}={path}" for c, path in zip(CHANNELS, files[people[0]], strict=True)]
        target = out / name / "reference.json"
        ndflow("normalise", *named, "--to", target, "-o", out / f"{name}-normalise", *words)


def run_transforms(image: Path, mask: Path, out: Path) -> None:
    """Normalise a scan with TorchIO and MONAI, in the environment that has torch."""
    out.mkdir()
    python = Path(__file__).resolve().parents[1] / ".venv-torch" / "bin" / "python"
    command = [python, "-W", "ignore", "-c", TRANSFORMS, image, mask, out]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("the transforms failed; run make test-torch once to install torch")


def chosen_scans(cohort: Path) -> list[str]:
    """Return the labels of the first scans of each site."""
    by_site: dict[str, list[str]] = {}
    for row in rows(cohort / "participants.tsv"):
        by_site.setdefault(row["site"], []).append(row["participant_id"].removeprefix("sub-"))
    return [label for labels in by_site.values() for label in sorted(labels)[:PER_SITE]]


def write_table(cohort: Path, scans: list[str], path: Path, *, tissues: bool) -> None:
    """Write the table of a study."""
    known = {
        row["participant_id"].removeprefix("sub-"): row for row in rows(cohort / "participants.tsv")
    }
    kinds = {"image": "T1w", "mask": "desc-brain_mask"}
    kinds |= {t: f"label-{t.upper()}_probseg" for t in ("gm", "wm", "csf")} if tissues else {}
    lines = ["\t".join(["subject", "site", "age", "sex", *kinds])]
    for label in scans:
        cells = [label, *(known[label][name] for name in ("site", "age", "sex"))]
        lines.append(
            "\t".join([*cells, *(str(file(cohort, label, kind)) for kind in kinds.values())])
        )
    path.write_text("\n".join(lines) + "\n")


def tissue_maps(cohort: Path, scans: list[str]) -> list[str]:
    """Return the option for the tissue probability maps of some scans."""
    names = {tissue: f"label-{tissue.upper()}_probseg" for tissue in ("csf", "gm", "wm")}
    files = [f"{t}={file(cohort, scan, kind)}" for scan in scans for t, kind in names.items()]
    return ["--tissue-maps", *files]


def file(cohort: Path, label: str, kind: str) -> Path:
    """Return a file of a scan."""
    return cohort / f"sub-{label}" / "anat" / f"sub-{label}_{kind}.nii.gz"


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


def ndflow(*words: object) -> None:
    """Run a command; a failure ends everything."""
    done = subprocess.run(
        [sys.executable, "-m", "ndflow", *map(str, words)], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"ndflow {' '.join(map(str, words))}\n{done.stderr}")


def hashes(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the hash of the voxels of each image, and of each map."""
    for path in sorted(folder.rglob("*.nii.gz")):
        image: Any = nibabel.load(path)
        voxels = np.asanyarray(image.dataobj)
        yield (
            key(folder, path),
            digest(voxels.tobytes() + str((voxels.dtype, voxels.shape)).encode()),
        )
    for path in sorted(folder.rglob("*.json")):
        content = json.loads(path.read_text())
        if isinstance(content, dict) and "kind" in content:
            for place, found in models(content):
                yield f"{key(folder, path)}:{place}", digest(plain(found))


def models(content: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every mixture and every intensity map in a file, with its place."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    for name, value in pairs:
        here = f"{place}.{name}" if place else str(name)
        if name in ("map", "mixture"):
            yield here, value
        elif isinstance(value, dict | list) and name != "inputs":
            yield from models(value, here)


def numbers(folder: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield the numbers of each table, but the one that holds times."""
    for path in sorted(folder.rglob("*.tsv")):
        if path.name == "preparation.tsv":
            continue
        cells = [cell for row in rows(path) for cell in row.values()]
        yield key(folder, path), [float(cell) for cell in cells if is_number(cell)]


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Say what is missing, new or changed."""
    found = []
    for group in ("hashes", "numbers"):
        old, new = before[group], after[group]
        found += [f"missing: {name}" for name in sorted(old.keys() - new.keys())]
        found += [f"new: {name}" for name in sorted(new.keys() - old.keys())]
        found += [
            f"changed: {name}"
            for name in sorted(old.keys() & new.keys())
            if not same(old[name], new[name])
        ]
    return found


def same(one: Any, other: Any) -> bool:
    """Tell whether two hashes, or two tables, agree."""
    if isinstance(one, str):
        return bool(one == other)
    close = (
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(one, other, strict=False)
    )
    return len(one) == len(other) and all(close)


def key(folder: Path, path: Path) -> str:
    """Return the name of a file in the record."""
    return str(path.relative_to(folder))


def plain(item: Any) -> bytes:
    """Return the content of a model, without the words that only people read."""
    return json.dumps(item, sort_keys=True).encode()


def digest(content: bytes) -> str:
    """Return a short hash."""
    return hashlib.sha256(content).hexdigest()[:16]


def is_number(cell: str) -> bool:
    """Tell whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
