"""Build the reference ``builtin:T1w`` from scans that anybody may use for anything.

    python experiments/build_builtin.py [COHORT]

writes src/ndflow/subject/builtin/T1w_1.json, the same bytes each time. COHORT is the folder of the
prepared cohort of docs/study.md. Only healthy people count, of two sites whose licences ask for
nothing in return (CC0 and PDDL); the third, under CC BY-SA, is left out. Both sites weigh the
same. A version that was published never changes: build another, and list it in
`ndflow.subject.target`.
"""

import csv
import os
import sys
from pathlib import Path
from typing import Any

from ndflow.image.subject import Subject, TissueMaps
from ndflow.options import Options
from ndflow.population import Reference
from ndflow.subject.records import ReferenceModel
from ndflow.subject.reference import average_models, read_source

ROOT = Path(__file__).resolve().parents[1]
COHORT = Path(os.environ.get("NDFLOW_COHORT", ROOT.parent / "shared" / "cohort"))
OUTPUT = ROOT / "src" / "ndflow" / "subject" / "builtin" / "T1w_1.json"
SITES = {
    "NSK": "CC0 1.0: OpenNeuro ds002748, Novosibirsk, doi:10.18112/openneuro.ds002748.v1.0.5",
    "UCLA": "PDDL 1.0: OpenfMRI ds000011, Los Angeles, Foerde, Knowlton and Poldrack (2006)",
}
OPTIONS = Options(method="nyul")  # its landmarks are measured as well


def people(cohort: Path) -> list[dict[str, str]]:
    """Return the healthy people of both sites."""
    with (cohort / "participants.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [row for row in rows if row["site"] in SITES and row["group"] == "control"]


def scan_of(cohort: Path, name: str) -> Subject:
    """Return a scan with its mask and its tissue probability maps."""
    anat = cohort / name / "anat"
    maps = (str(anat / f"{name}_label-{t}_probseg.nii.gz") for t in ("CSF", "GM", "WM"))
    mask = anat / f"{name}_desc-brain_mask.nii.gz"
    return Subject(str(anat / f"{name}_T1w.nii.gz"), str(mask), tissues=TissueMaps(*maps))


def made_from(cohort: Path) -> tuple[Reference, dict[str, Any]]:
    """Return the reference, and its card."""
    chosen = people(cohort)
    counts = {site: sum(row["site"] == site for row in chosen) for site in SITES}
    scans = (scan_of(cohort, row["participant_id"]) for row in chosen)
    models = [read_source(scan, options=OPTIONS).parts[""].model for scan in scans]
    reference = average_models(
        models,
        OPTIONS,
        names=[row["participant_id"] for row in chosen],
        weights=[1 / counts[row["site"]] for row in chosen],
        average="quantile",
        channel_names="T1w",
    )
    return reference, card(chosen, counts)


def card(chosen: list[dict[str, str]], counts: dict[str, int]) -> dict[str, Any]:
    """Return who was scanned, and what the reference is for."""
    who = {}
    for site, count in counts.items():
        own = [row for row in chosen if row["site"] == site]
        ages = [float(row["age"]) for row in own]
        women = sum(row["sex"] == "F" for row in own)
        who[site] = (
            f"{count} healthy adults ({women} women) of {min(ages):.0f} to {max(ages):.0f} years, "
            f"{own[0]['scanner']}, {own[0]['field_strength_T']} T (scanner from the literature)"
        )
    return {
        "name": "builtin:T1w@1",
        "who": who,
        "scans": len(chosen),
        "licence": SITES,
        "made": (
            "bias fields corrected by N4, brains at 2 mm, tissue probability maps of one recipe; "
            "quantiles averaged, both sites with the same weight"
        ),
        "for": "T1w images of adult brains, masked and bias-corrected, to one contrast and scale",
        "not_for": [
            "children, and people older than these: their contrast of tissues is another",
            "other contrasts than T1w, and images with skull",
            "absolute measurements: the units mean nothing beyond this reference",
            "populations with large lesions or atrophy, unless lesions are excluded",
            "the common reference of a study that has enough scans for one of its own",
        ],
    }


def main() -> None:
    reference, words = made_from(Path(sys.argv[1]) if len(sys.argv) > 1 else COHORT)
    OUTPUT.write_bytes(ReferenceModel(reference).content({"card": words}))
    print(f"wrote {OUTPUT}: {OUTPUT.stat().st_size:,} bytes, {reference}, {reference.tissues}")


if __name__ == "__main__":
    main()
