"""The Nextflow recipe, without Nextflow: no package index has the program.

The commands of its processes are run by a shell, each in an empty folder with its inputs where
Nextflow would put them.
"""

import re
import shlex
import shutil
from pathlib import Path

from recipe_place import ROOT, SUBJECTS, Place
from studies import content

SOURCE = (ROOT / "recipes/nextflow/main.nf").read_text(encoding="utf-8")
SCRIPTS = dict(
    re.findall(r'^process (\w+) \{$.*?script:.*?"""\n(.*?)\n    """$', SOURCE, re.DOTALL | re.M)
)


def test_the_commands_of_the_processes_give_what_they_promise(place: Place) -> None:
    mixtures = []
    for one in SUBJECTS:
        folder, files = staged(place, one)
        execute(place, "FIT", folder, image=f"scan/{one}_T1w.nii.gz", files=files, scan=one)
        mixtures.append(folder / f"{one}.json")
    average = place.path / "work/reference"
    (average / "models").mkdir(parents=True)
    for mixture in mixtures:
        shutil.copy(mixture, average / "models")
    execute(place, "REFERENCE", average, **{"params.channel": "T1w"})
    made = {}
    for one in SUBJECTS:
        folder, files = staged(place, f"{one} again", one)
        shutil.copy(average / "reference.json", folder)
        given = {"image": f"scan/{one}_T1w.nii.gz", "files": files, "scan": one}
        given |= {"reference": "reference.json", "params.options": "--scale positive"}
        execute(place, "NORMALISE", folder, **given)
        assert (folder / f"{one}.json").exists()
        made[one] = content(folder / f"{one}.nii.gz")
    assert made == place.by_hand()


def test_every_parameter_has_a_default() -> None:
    config = (ROOT / "recipes/nextflow/nextflow.config").read_text(encoding="utf-8")
    (block,) = re.findall(r"^params \{$(.*?)^\}$", config, re.DOTALL | re.M)
    assert set(re.findall(r"params\.(\w+)", SOURCE)) == set(re.findall(r"^ +(\w+) =", block, re.M))


def staged(place: Place, name: str, subject: str = "") -> tuple[Path, str]:
    """Return a folder with the scan and the mask of a subject, and the options that name these."""
    one = subject or name
    folder = place.path / "work" / name
    for kind, stem in (("scan", "T1w"), ("mask", "mask")):
        (folder / kind).mkdir(parents=True)
        shutil.copy(place.path / f"scans/{one}_{stem}.nii.gz", folder / kind)
    return folder, f"--mask mask/{one}_mask.nii.gz    "


def execute(place: Place, process: str, folder: Path, **values: str) -> None:
    """Run the command of a process in a folder, with its variables filled in."""
    script = re.sub(r"\$\{([\w.]+)\}", lambda found: values[found[1]], SCRIPTS[process])
    place.well(f"cd {shlex.quote(str(folder))} && {script}")
