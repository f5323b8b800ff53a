"""Inputs that must be refused: one line about what is wrong, exit code 2, nothing changed."""

import gzip
import json
import os
import pickle  # noqa: TID251  # to see that it is refused
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from channel_phantoms import Desk
from commands import Run, typed
from phantoms import head, nifti, save
from studies import SMALL, snapshot, write_tsv

import ndflow

# A command, an arrow, and what its error must say. Files are those of `shop`.
ROWS = """
normalis → normalise
normalise {scan} --to {target} -o {new} --rang 0 1 → --range
normalise --to {target} -o {new} → IMAGES
normalise {scan} --to {target} → --output
apply {scan} {second} --map {map} -o {new} → 2
reference -o {json} → SOURCES
{normalise} --scale x → --scale
{normalise} --set outside=x → outside
{normalise} --range 1 0 → range
{normalise} --range 0 1 --scale standard → range | scale
{normalise} --set effectivecount=5 → effectivecount=5 | effective-count
{normalise} --set max-bytes=100 → {scan} | max-bytes
{normalise} --set objective → NAME=VALUE
fit {scan} -o {json} --set average=density → NAME=VALUE
{normalise} -j 0 → jobs
{normalise} --to-mask {mask} → --to-mask
{normalise} --mask {mask} {mask} → --mask
{normalise} --exclude auto → --exclude
{normalise} --method nyul --set solver=rk4 → solver | nyul
{normalise} --proportions tissue → --tissue-maps
{normalise} --proportions adaptive --method affine → affine
normalise {scan} --to builtin:T1w --set objective=l2 -o {new} → objective | --proportions average
{normalise} --set freeze=99 → component
{normalise} --set freeze=9:1 → freeze
normalise {scan} --to {reference} --scale target -o {new} → {reference} | --scale positive
normalise {scan} --to {reference} --dtype int16 --scale standard -o {new} → --range 0 1000
normalise {scan} --to {second} --proportions adaptive -o {new} → {second} | reference
normalise {scan} --to builtin:T2w -o {new} → builtin:T2w | builtin:T1w@1
normalise {scan} {second} --to {target} -o {new} → {new} | folder
normalise {scan} {scan} --to {target} -o {out} → {scan} | twice
normalise {scan} {twin} --to {target} -o {out} → {twin} | {scan}
normalise {gone} --to {target} -o {new} → {gone}: no such file
normalise {scan} --to {cut} -o {new} → {cut} | again
fit {constant} -o {json} → {constant} | 7 | mask
{normalise} --exclude {whole} → {scan} | 100
normalise {scan} --to {trap} -o {new} → {trap}
normalise {scan} --to {map} -o {new} → {map} | 'map'
reference {target} {reference} -o {json} → {reference} | 'reference'
apply {scan} --map {target} -o {new} → {target} | 'mixture'
apply {scan} --map {wide} -o {new} → {wide} | 2 channels
normalise {scan} --to {many} -o {new} → {many} | 512
normalise {scan} --to {far} -o {new} → {far}
reference {target} {scan} --weights 1 -o {json} → weights
reference {target} {scan} --weights 1 -1 -o {json} → weights
reference {target} {target} -o {json} → {target}
reference {target} --mask {mask} -o {json} → --mask
reference {target} --method hellier -o {json} → {target} | landmarks
fit {scan} -o {new} → {new} | .json
cohort {table} → OUT
cohort {table} {folder}/no/out → no/out
cohort {table} {out} --pattern *.nii → --pattern
cohort {table} {out} --reference {gone} → {gone}: no such file
cohort {table} {out} --reference {target} → {target} | reference
cohort {table} {out} --dtype uint8 → --range 0 255
cohort {table} {out} --method nyul --mode site → --mode site
cohort {table} {out} --proportions tissue → row 2 | csf, gm and wm
cohort {table} {out} --tissues none → --prepare
cohort {table} {out} --channels T1w T1w → twice
cohort {table} {out} --channels T1w FLAIR → T1w
cohort {table} {out} --joint → --joint
cohort {nosite} {out} --mode site → {second} | site
cohort {table} {folder} --force → folder for the results
bids {raw}/sub-1 {out} group → dataset_description
bids {raw} {out} group --participant-label 07 → 07
bids {raw} {out} group --participant-label 01 ../../x → letters and digits
bids {raw} {out} group --suffix T2w → T2w
bids {raw} {out} group --derivatives no → no: no such folder
bids {raw} {raw} group --force → {raw}
bids {raw} {other} group --force → {other}
bids {raw} {out} group --prepare --mask auto → --prepare
prepare {table} {out} --space Talairach → --space
prepare {table} {out} --space MNI --resolution 0.4 → resolution
evaluate {raw} → {raw}
report {raw} → {raw}
verify {raw} → {raw}
{joint} --method nyul → --joint
{joint} --set freeze=1 → --joint
{joint} --preset paper → --joint
normalise {both} --to {jointly} -o {out} → {jointly} | --joint
normalise {both} --joint --to {separate} -o {out} → {separate} | --joint
normalise {both} --to {reference} -o {out} → {reference}
normalise {T1w} --to {jointly} -o {new} → {jointly} | channels
normalise FLAIR={FLAIR} T1w={T1w} --joint --to {jointly} -o {out} → {jointly} | order
fit T1w={T1w} {FLAIR} -o {json} → {FLAIR}
fit {T1w} {FLAIR} --joint -o {json} → --joint
fit T1w={T1w} T1w={FLAIR} -o {json} → T1w
fit T1w={T1w} FLAIR={scan} -o {json} → {scan} | shape
fit {both} --mask {mask} {mask} -o {json} → --mask
reference {joint1} {separate2} -o {json} → {separate2}
apply {T1w} --map {jointmap} -o {new} → {jointmap} | channels
"""
TABLE = [row.split(" → ") for row in ROWS.strip().splitlines()]


class Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory, subject: Desk) -> dict[str, Any]:
    """The names of the table, and what each of them stands for."""
    folder = tmp_path_factory.mktemp("shop")
    voxels = head(0, shape=SMALL)
    inside = voxels > 0
    scan, second = (save(folder / f"{n}.nii.gz", head(n, shape=SMALL)) for n in (0, 1))
    names: dict[str, Any] = {"folder": folder, "scan": scan, "second": second}
    names |= {"out": folder / "out", "new": folder / "new.nii.gz", "json": folder / "new.json"}
    names |= {"gone": folder / "gone.nii", "twin": save(folder / "0.nii", voxels)}

    packed = gzip.compress(nifti(voxels), mtime=0)
    images = {
        "cut.nii.gz": packed[:-1],
        "html.nii.gz": b"<html>404</html>",
        "constant.nii": nifti(np.where(inside, 7, 0).astype(np.int16)),
        "mask.nii": nifti(inside.astype(np.uint8)),
        "whole.nii": nifti(np.ones(SMALL, np.uint8)),
    }
    for name, content in images.items():
        (folder / name).write_bytes(content)
        names[name.partition(".")[0]] = folder / name

    mixture = ndflow.fit(scan).mixture
    models = {
        "target": mixture,
        "reference": ndflow.reference([mixture]),
        "map": ndflow.Affine(2.0, 5.0),
        "wide": ndflow.Affine(np.eye(2), np.zeros(2)),
        "far": ndflow.GaussianMixture([0.5, 0.5], [1e300, 2e300], [1.0, 1.0]),
    }
    for name, model in models.items():
        names[name] = folder / f"{name}.json"
        ndflow.save(names[name], model)
    known = json.loads(names["target"].read_text())
    plain = {name: part for name, part in known.items() if name != "checksum"}
    lots = {"weights": [1 / 513] * 513, "means": [[float(n)] for n in range(513)]}
    lots |= {"precisions": [[[1.0]]] * 513}
    texts = {
        "trap": pickle.dumps(Trap(), 0),
        "many": json.dumps(plain | {"mixture": plain["mixture"] | lots}).encode(),
    }
    for name, content in texts.items():
        names[name] = folder / f"{name}.json"
        names[name].write_bytes(content)

    rows = [{"image": f"{n}.nii.gz", "site": "AB"[n], "age": 30 + n} for n in (0, 1)]
    tables = {
        "table": rows,
        "nosite": [rows[0], rows[1] | {"site": "n/a"}],
    }
    for name, content in tables.items():
        names[name] = write_tsv(folder / f"{name}.tsv", content)
    for name in ("raw", "other"):
        names[name] = folder / name
        (folder / name / "sub-1" / "anat").mkdir(parents=True)
        save(folder / name / "sub-1" / "anat" / "sub-1_T1w.nii.gz", voxels)
        description = '{"Name": "Test", "BIDSVersion": "1.10.0"}'
        (folder / name / "dataset_description.json").write_text(description)

    made = tmp_path_factory.mktemp("joint") / "out"
    typed("normalise", *subject.words, "--joint", "--to", subject.joint, "-o", made, "-q")
    for name in ("joint1", "separate2"):
        names[name] = subject.folder / f"{name}.json"
    names |= {**subject.files, "jointly": subject.joint, "separate": subject.separate}
    names |= {"jointmap": made / "0_T1w.json", "both": " ".join(subject.words)}
    names["joint"] = f"normalise {names['both']} --joint --to {subject.joint} -o {names['out']}"
    names["normalise"] = f"normalise {scan} --to {names['target']} -o {names['new']}"
    return names


@pytest.mark.parametrize(("command", "said"), TABLE, ids=[command for command, _ in TABLE])
def test_it_is_refused_in_one_line_and_nothing_changes(
    run: Run, shop: dict[str, Any], monkeypatch: pytest.MonkeyPatch, command: str, said: str
) -> None:
    monkeypatch.chdir(shop["folder"])
    before = snapshot(shop["folder"])
    ran = run(*command.format(**shop).split())
    assert (ran.code, ran.out) == (2, "")
    for word in said.format(**shop).split(" | "):
        assert word in ran.errors[0]
    assert "Traceback" not in ran.err
    assert "unexpected" not in ran.err
    assert snapshot(shop["folder"]) == before


def test_a_damaged_scan_does_not_stop_the_others(
    run: Run, shop: dict[str, Any], tmp_path: Path
) -> None:
    scans, out = [shop[name] for name in ("scan", "cut", "second")], tmp_path / "out"
    ran = run("normalise", *scans, "--to", shop["target"], "-o", out)
    assert ran.code == 1
    assert str(shop["cut"]) in ran.errors[0]
    assert {path.name for path in out.iterdir()} == {
        "failures.tsv", "0.nii.gz", "0.json", "1.nii.gz", "1.json"
    }  # fmt: skip
    titles, row = (out / "failures.tsv").read_text().splitlines()
    assert titles.split("\t") == ["scan", "stage", "cause", "try"]
    assert row.split("\t")[:2] == [str(shop["cut"]), "normalise"]
    ran = run("normalise", shop["cut"], shop["html"], "--to", shop["target"], "-o", tmp_path / "n")
    assert ran.code == 2
