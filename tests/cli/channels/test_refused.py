"""References and options that do not fit the channels: refused by name, with what to do."""

import re
from pathlib import Path

import pytest
from channel_phantoms import Desk
from commands import Run, typed

BOTH = "T1w={T1w} FLAIR={FLAIR}"
JOINT = f"normalise {BOTH} --joint --to {{joint}} -o {{out}}"

WRONG = {
    # the kind of the reference
    f"normalise {BOTH} --to {{joint}} -o {{out}}": r"{joint}: joint.*; add --joint",
    f"normalise {BOTH} --joint --to {{separate}} -o {{out}}": (
        r"{separate}: .*each channel by itself; leave out --joint, or run ndflow fit"
    ),
    f"normalise {BOTH} --to {{joint1}} -o {{out}}": r"{joint1}: joint.*; add --joint",
    f"normalise {BOTH} --joint --to {{single}} -o {{out}}": (
        r"{single}: of T1w, .*; .*ndflow fit T1w=FILE FLAIR=FILE --joint for each"
    ),
    f"normalise {BOTH} --to {{single}} -o {{out}}": (
        r"{single}: of T1w, .*; .*ndflow fit T1w=FILE FLAIR=FILE for each subject"
    ),
    f"normalise {BOTH} --joint --to builtin:T1w -o {{out}}": r"builtin:T1w\S*: of T1w, each",
    f"normalise {BOTH} --to {{T1w}} -o {{out}}": (
        r"{T1w}: one image, .*; fit .*: ndflow fit T1w=FILE FLAIR=FILE"
    ),
    "normalise {T1w} --to {joint} -o {out}.nii.gz": (
        r"{joint}: of 2 channels.*; give all of them: T1w=FILE FLAIR=FILE --joint"
    ),
    "normalise {T1w} --to {separate} -o {out}.nii.gz": (
        r"{separate}: of 2 channels.*; give all of them: T1w=FILE FLAIR=FILE$"
    ),
    # its channels
    "normalise FLAIR={FLAIR} T1w={T1w} --joint --to {joint} -o {out}": (
        r"{joint}: its channels are T1w and FLAIR, .*in this order"
    ),
    "normalise FLAIR={FLAIR} T1w={T1w} --to {separate} -o {out}": (
        r"{separate}: its channels are T1w and FLAIR, .*in this order"
    ),
    f"normalise {BOTH} T2w={{other}} --joint --to {{joint}} -o {{out}}": (
        r"{joint}: its channels are T1w and FLAIR, .*T2w"
    ),
    "normalise T1w={T1w} T2w={FLAIR} --joint --to {joint} -o {out}": (
        r"{joint}: .*is T2w meant to be FLAIR\?"
    ),
    # options
    f"{JOINT} --method nyul": r"--joint with --method nyul: ",
    f"{JOINT} --proportions adaptive": r"--joint with --proportions: ",
    f"{JOINT} --set freeze=1": r"--joint with --set freeze: ",
    f"{JOINT} --set objective=cramer": r"--joint with --set objective: ",
    f"{JOINT} --set solver=rk4": r"--joint with --set solver: ",
    f"{JOINT} --preset paper": r"--joint with --preset: ",
    f"{JOINT} --set landmarks=5": r"landmarks is not an option of the method 'ndflow'",
    f"{JOINT} --to-mask {{T1w}}": r"--to-mask: ",
    f"{JOINT} --tissue-maps csf=a.nii gm=a.nii wm=a.nii": r"--joint with --tissue-maps: ",
    f"{JOINT} --dtype uint8": r"uint8 ends at 255",
    # references
    "reference {joint1} {separate2} -o {out}.json": (
        r"{separate2}: .*by themselves, but {joint1} .*joint"
    ),
    "reference {separate1} {joint2} -o {out}.json": (
        r"{joint2}: .*joint.*, but {separate1} .*by themselves"
    ),
    "reference {separate1} {T1w} -o {out}.json": r"{T1w}: holds one channel, but {separate1} ",
    "reference {single1} {joint1} -o {out}.json": (
        r"{joint1}: .*joint.*, but {single1} holds one channel"
    ),
    "reference {single1} --joint -o {out}.json": (
        r"{single1}: not a joint density; .*ndflow fit T1w=FILE FLAIR=FILE --joint"
    ),
    "reference {separate1} --joint -o {out}.json": (
        r"{separate1}: not a joint density; leave out --joint"
    ),
    "reference {joint1} {swapped} -o {out}.json": r"{swapped}: .*in the same order",
    "reference {joint1} --set average=quantile -o {out}.json": r"mixtures must have at most",
    "reference {joint1} --method nyul -o {out}.json": r"--method nyul looks at one channel",
    "reference {joint1} --channel T1w -o {out}.json": r"--channel: ",
    "reference {joint1} {joint2} --weights 1 -o {out}.json": r"--weights: 1 given for 2 scans",
    # maps
    "apply {T1w} --map {map} -o {out}.nii.gz": (
        r"{map}: a map of 2 channels, .*; give all channels .* T1w=FILE FLAIR=FILE"
    ),
    f"apply {BOTH} --map {{single_map}} -o {{out}}": (
        r"{single_map}: a map of 1 channel, .* or its image alone"
    ),
    "apply FLAIR={FLAIR} T1w={T1w} --map {map} -o {out}": r"{map}: its channels are T1w and FLAIR",
    f"apply {BOTH} T2w={{other}} --map {{map}} -o {{out}}": r"{map}: a map of 2 channels, not of 3",
    "apply {T1w} {FLAIR} --map {map} -o {out}": r"2 images: a map is applied to one at a time",
}


@pytest.fixture(scope="module")
def names(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that the commands are about."""
    folder = tmp_path_factory.mktemp("refused")
    scan = desk.files["T1w"]
    typed("fit", scan, "-o", folder / "single1.json", "-q")
    single = folder / "single.json"
    typed("reference", folder / "single1.json", "--channel", "T1w", "-o", single, "-q")
    typed("normalise", scan, "--to", single, "-o", folder / "alone.nii.gz", "-q")
    out = folder / "out"
    typed("normalise", *desk.words, "--joint", "--to", desk.joint, "-o", out, "-q")
    swapped = folder / "swapped.json"
    typed("fit", *reversed(desk.words), "--joint", "-o", swapped, "-q")
    models = ("joint1", "joint2", "separate1", "separate2")
    return {
        **desk.files,
        **{name: desk.folder / f"{name}.json" for name in models},
        "joint": desk.joint,
        "separate": desk.separate,
        "single1": folder / "single1.json",
        "single": single,
        "single_map": folder / "alone.json",
        "map": out / "0_T1w.json",
        "swapped": swapped,
        "other": desk.folder / "1_T1w.nii.gz",
    }


@pytest.mark.parametrize("command", WRONG)
def test_what_does_not_fit_is_refused_in_one_line(
    run: Run, names: dict[str, Path], tmp_path: Path, command: str
) -> None:
    known = {**names, "out": tmp_path / "out"}
    ran = run(*command.format(**known).split())
    assert ran.code == 2
    assert ran.out == ""
    (line,) = ran.err.splitlines()
    message = WRONG[command].format(**{name: re.escape(str(path)) for name, path in known.items()})
    assert re.match(f"error: {message}", line), line
    assert not [*tmp_path.iterdir()]


def test_mixtures_of_several_channels_are_not_averaged_with_one(
    run: Run, names: dict[str, Path], tmp_path: Path
) -> None:
    several = names["separate1"]
    ran = run("reference", names["single1"], several, "-o", tmp_path / "reference.json")
    assert ran.code == 2
    assert ran.errors[0].startswith(f"error: {several}: holds T1w and FLAIR by themselves, but ")
    assert not [*tmp_path.iterdir()]


def test_a_joint_map_is_undone_only_in_what_it_made(
    run: Run, desk: Desk, names: dict[str, Path], tmp_path: Path
) -> None:
    command = ("apply", *desk.words, "--map", names["map"], "--inverse", "-o", tmp_path / "back")
    ran = run(*command)
    assert ran.code == 2
    assert f"{names['T1w']}: not the image that {names['map']} made: its content is" in ran.err
    assert ran.err.splitlines()[0].endswith("add --other-image")
    assert run(*command, "--other-image").code == 0
