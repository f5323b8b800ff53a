"""Command lines put together from the options that the parser knows, with good and bad values."""

from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from fuzz.conftest import Fuzz
from fuzz.judge import typed_in
from phantoms import head, save, tissue_shares
from studies import contents, snapshot, write_tsv

import ndflow
from ndflow.cli.app import COMMANDS, app
from ndflow.options import options_of

SHAPE = (10, 11, 9)
ODD = ["", "-1", "0", "1", "2", "0.5", "1e3", "nan", "inf", "-inf", "1e400", "x", "٣", "a\nb", "é"]
FILES = ["a.nii.gz", "b.nii.gz", "m.nii.gz", "gm.nii.gz", "r.json", "map.json", "scans.tsv"]
FILES += ["missing.nii", "empty.nii", ".", "raw", "auto", "brain", "none", "nonzero", "", "-"]
FILES += ["--", "a.nii.gz\n"]
USUAL = {  # what a command needs
    "normalise": "a.nii.gz --to r.json -o out/x.nii.gz",
    "fit": "a.nii.gz -o out/x.json",
    "apply": "a.nii.gz --map map.json -o out/x.nii",
    "reference": "a.nii.gz b.nii.gz -o out/r.json",
    "cohort": "scans.tsv out/study",
    "bids": "raw out/bids group",
    "evaluate": "raw",
    "report": "raw",
    "verify": "raw",
}
EXPERT = [one.name.replace("_", "-") for one in options_of() if one.metadata["expert"]]
SETTINGS = ["cramer", "rk4", "quantile", "zero", "keep", "3", "weight<0.02", "0:500", "1,2"]
NEVER = {"--scheduler", "--verbose", "-v", "--jobs", "-j"}  # processes, networks and tracebacks


@cache
def options(command: str) -> list[Any]:
    """Return the options of a command, as its parser knows them."""
    arguments = app[command].assemble_argument_collection()
    named = [one for one in arguments if any(name.startswith("--") for name in one.names)]
    return [one for one in named if not NEVER & set(one.names)]


@cache
def inputs() -> dict[str, bytes]:
    """Return the content of the files that the options name."""
    with TemporaryDirectory() as folder:
        fill(Path(folder))
        return contents(Path(folder))


def fill(folder: Path) -> None:
    (folder / "raw" / "sub-01" / "anat").mkdir(parents=True)
    (folder / "raw" / "dataset_description.json").write_text('{"Name": "x", "BIDSVersion": "1"}')
    scans = [head(seed, shape=SHAPE, gain=1 + seed) for seed in range(2)]
    for name, scan in zip(
        ["a", "b", "raw/sub-01/anat/sub-01_T1w"], [*scans, scans[0]], strict=True
    ):
        save(folder / f"{name}.nii.gz", scan)
    save(folder / "m.nii.gz", (scans[0] > 0).astype(np.uint8))
    save(folder / "gm.nii.gz", tissue_shares(SHAPE)["gm"].astype(np.float32))
    (folder / "empty.nii").touch()
    standard = ndflow.GaussianMixture([0.5, 0.5], [-0.8, 0.8], [1 / 0.36, 1 / 0.36])
    ndflow.save(folder / "r.json", ndflow.Reference(standard, ("T1w",), 2))
    ndflow.save(folder / "map.json", ndflow.Affine([[2.0]], [5.0]))
    write_tsv(folder / "scans.tsv", [{"image": "a.nii.gz"}, {"image": "b.nii.gz"}])


def values(random: Random, option: Any) -> list[str]:
    """Return values for an option: often of its type, but not always."""
    choices = option.get_choices()
    if option.name == "--set":
        return [f"{random.choice(EXPERT)}={random.choice([*ODD, *SETTINGS])}"]
    if option.name == "--tissue-maps":
        return [f"{tissue}={random.choice(FILES)}" for tissue in ("csf", "gm", "wm")]
    if random.random() < 0.1:
        return [random.choice(ODD)]
    if choices:
        return [random.choice(choices)]
    count = random.randint(0, 3) if option.token_count()[1] else option.token_count()[0]
    numbers = "int" in str(option.hint) or "float" in str(option.hint)
    return [random.choice(ODD if numbers else FILES) for _ in range(count)]


def in_folder(folder: Path, word: str) -> str:
    """Return a word with the file that it names, if any, in the folder."""
    name, equals, file = word.rpartition("=")
    known = file in FILES[:9] or file == "raw" or "out/" in file
    return f"{name}{equals}{folder / file}" if known else word


def typed_at_random(random: Random, folder: Path) -> bool:
    for name, content in inputs().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "out").mkdir()
    command = random.choice(sorted(set(USUAL) & set(COMMANDS)))
    words = USUAL[command].split()
    known = options(command)
    for option in random.sample(known, min(random.choice([0, 1, 1, 2, 3, 5]), len(known))):
        chosen = random.choice([name for name in option.names if name.startswith("-")])
        words += [chosen, *values(random, option)]
    if random.random() < 0.1:
        words.insert(random.randrange(len(words)), random.choice(ODD + FILES))
    if random.random() < 0.05:
        del words[random.randrange(len(words))]
    paths = [in_folder(folder, word) for word in words]
    before = {name: hashed for name, hashed in snapshot(folder).items() if name[:3] != "out"}
    ran = typed_in("", command, *paths)
    after = {name: hashed for name, hashed in snapshot(folder).items() if name[:3] != "out"}
    assert {name: after.get(name) for name in before} == before, "an input has changed"
    if ran.code == 2 and command not in ("cohort", "bids"):
        assert not list((folder / "out").iterdir()), "something was written"
    return ran.code == 0


def test_options(fuzz: Fuzz) -> None:
    fuzz(typed_at_random, 40)
