"""Presets: what is used where the user chooses nothing.

*paper* is the paper [castro2018]: each scan is matched to the average density of all, by the L2
divergence. *auto* decides by what there is:

| a study with                              | proportions |
|-------------------------------------------|-------------|
| tissue maps of all scans, by one labeller | tissue      |
| no such maps, but enough scans            | adaptive    |
| few scans                                 | average     |

The mode is two-level where at least two sites have enough scans, and individual otherwise. Small
sites do no harm: the map of a site with one scan is that of the scan. Where a reference is given
for a BIDS dataset, it is individual, so that each participant can be normalised by itself.

Where a reference is given, its scans count, and its tissues have to come from maps for *tissue*.
The rest is the same for all studies (`AUTO`). What the user chooses is used instead; only what is
left open is decided here. Methods other than ndflow have no presets: they keep to their definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

from ndflow.errors import InvalidValueError
from ndflow.image.subject import is_other_contrast
from ndflow.methods.base import method_called
from ndflow.options import ModeName, Options, PresetName, chosen_options, options_of
from ndflow.population import TISSUES, Reference
from ndflow.transport.joint import REGULARISATION
from ndflow.values import Record, listed, plural

Known = Literal["maps", "components"]


class TargetFacts(NamedTuple):
    """What is known about a target that was given.

    Attributes
    ----------
    scans : how many scans it is the average of; 1 for a target that is itself a scan.
    tissues : where its tissues come from, or can come from; None if it knows none.
    """

    scans: int = 1
    tissues: Known | None = None

    @classmethod
    def of_reference(cls, reference: Reference) -> TargetFacts:
        """Return what matters about a reference."""
        mixture, tissues = reference.mixture, reference.tissues
        if tissues is not None and tissues.source == "maps":
            return cls(reference.scans, "maps")
        split = mixture.channels == 1 and can_split(mixture.components, reference.channel_names[0])
        return cls(reference.scans, "components" if tissues is not None or split else None)

    @property
    def words(self) -> str:
        """What it is."""
        return "a target of one scan" if self.scans == 1 else f"a reference of {self.scans} scans"


@dataclass(frozen=True)
class StudyFacts:
    """What is known about the scans of a study.

    Attributes
    ----------
    scans : how many there are.
    sites : how many each site has.
    with_maps : how many have tissue probability maps of CSF, GM and WM.
    given : what is known about a reference that was given; None if it is made from these scans.
    one_labeller : whether the maps of all sites seem to be made in the same way.
    can_split : whether the components of a reference of these scans can stand for tissues.
    channels : how many are brought to the reference together.
    alone : whether nothing may depend on the other scans.
    """

    scans: int
    sites: Mapping[str, int]
    with_maps: int = 0
    given: TargetFacts | None = None
    one_labeller: bool = True
    can_split: bool = True
    channels: int = 1
    alone: bool = False

    @property
    def all_maps(self) -> bool:
        """Whether all scans have maps that seem to be made in the same way."""
        return self.with_maps == self.scans and self.one_labeller

    @property
    def sites_known(self) -> bool:
        """Whether the site of each scan is known."""
        return sum(self.sites.values()) == self.scans

    @property
    def site_words(self) -> str:
        """How many sites there are, and how large they are."""
        if not self.sites:
            return "no named sites"
        if not self.sites_known:
            return "scans without a site"
        if len(self.sites) == 1:
            return "one site"
        least, most = min(self.sites.values()), max(self.sites.values())
        size = f"{least} to {most} scans" if least < most else f"{plural(most, 'scan')} each"
        return f"{len(self.sites)} sites with {size}"

    @property
    def map_words(self) -> str:
        """How many scans have tissue maps."""
        if not self.with_maps:
            return "no tissue maps"
        if not self.one_labeller:
            return "tissue maps that differ by site"
        of = "all" if self.with_maps == self.scans else f"{self.with_maps} of {self.scans}"
        return f"tissue maps of {of} scans"


def can_split(components: int, channel: str) -> bool:
    """Tell whether the components of a reference can stand for CSF, GM and WM.

    Parameters
    ----------
    components : how many it has.
    channel : what its images show; tissues are ordered by brightness as in T1w images.
    """
    return components >= len(TISSUES) and not is_other_contrast(channel)


# ── what follows ──────────────────────────────────────────────────────────────────────────────────


# What *auto* goes by.
ENOUGH_SCANS = 10  # the fewest whose average has proportions of tissue worth adapting
ENOUGH_PER_SITE = 5  # for a map of the site, at two or more (docs/concepts/before-you-start.md)
AUTO: Mapping[str, Any] = {
    "average": "quantile",  # keeps the peaks of the reference sharp
    "objective": "cramer",  # repeated scans agree better: fits of other structure change it less
    "regularisation": 1e-3,
}

GOVERNED = tuple(one.name for one in fields(Options) if one.metadata["by_preset"])

_SEVERAL = 2  # sites

_AVERAGES = {"density": "averaged densities", "quantile": "averaged quantiles"}
_WORDS: Mapping[str, Callable[[Options], str]] = {  # what is used, where a record mentions it
    "mode": lambda options: options.mode,
    "proportions": lambda options: f"{options.proportions} proportions",
    "average": lambda options: _AVERAGES[options.average],
    "objective": lambda options: f"objective {options.objective}",
    "regularisation": lambda options: f"regularisation {options.regularisation:g}",
}


@dataclass(frozen=True)
class Choices:
    """What the user chose: a preset, and options by name."""

    preset: PresetName = "auto"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Validate."""
        if self.preset not in get_args(PresetName):
            raise InvalidValueError(f"preset must be 'auto' or 'paper', not {self.preset!r}")
        object.__setattr__(self, "options", chosen_options(self.options))

    @property
    def governed(self) -> tuple[str, ...]:
        """The names of the options that presets decide, and the user chose."""
        return tuple(name for name in GOVERNED if name in self.options)


@dataclass(frozen=True)
class PresetRecord(Record):
    """Which preset was used, what it decided, and why.

    Attributes
    ----------
    name : of the preset.
    settings : what is used, in words.
    reason : for what *auto* decided; None if there was nothing to decide.
    chosen : the settings that the user chose instead.
    """

    name: str
    settings: str
    reason: str | None = None
    chosen: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it, in one line."""
        if self.reason is None:
            return f"{self.name}: {self.settings}"
        verb = "is" if self.reason.startswith(("a ", "one ", "only 1 ")) else "are"
        return f"{self.name}: {self.settings}, because there {verb} {self.reason}"


class Settled(NamedTuple):
    """Options with nothing left open, and why; None for a method without presets."""

    options: Options
    preset: PresetRecord | None


class _Decision(NamedTuple):
    """What a preset decides, and the words for what that depends on."""

    value: Any
    because: tuple[str, ...] = ()


def settled_study(choices: Choices, facts: StudyFacts) -> Settled:
    """Return the options of a study.

    Parameters
    ----------
    choices : what the user chose.
    facts : what is known about the study.

    Raises
    ------
    InvalidValueError : for choices that the method does not use.

    Examples
    --------
    >>> facts = StudyFacts(60, {"Bonn": 28, "Ulm": 14, "Kiel": 18})
    >>> print(settled_study(Choices(), facts).preset.text)  # doctest: +NORMALIZE_WHITESPACE
    auto: two-level, adaptive proportions, averaged quantiles, because there are 3 sites with 14 to
    28 scans and no tissue maps
    """
    if facts.channels > 1:
        return settled_together(choices)
    decided = {}
    if choices.preset == "auto":
        mode = _mode(facts, choices.options)
        alike = choices.options.get("mode", mode.value) == "site"
        decided = {"mode": mode, "proportions": _Decision("average") if alike else _target(facts)}
    return _settled(choices, decided, "mode", "proportions", "average")


def settled_match(choices: Choices, facts: TargetFacts, *, maps: bool) -> Settled:
    """Return the options of the match of single scans to a target.

    Parameters
    ----------
    choices : what the user chose.
    facts : what is known about the target.
    maps : whether the scans have tissue probability maps.

    Raises
    ------
    InvalidValueError : for choices that the method does not use.
    """
    decided = {}
    if choices.preset == "auto":
        known = "tissue maps" if maps else "no tissue maps"
        decided = {"proportions": _target_of_given(facts, maps=maps, words=known)}
    return _settled(choices, decided, "proportions")


def _settled(choices: Choices, decided: Mapping[str, _Decision], *mentioned: str) -> Settled:
    """Return what was chosen, and for what was not, what the preset says.

    Parameters
    ----------
    choices : what the user chose.
    decided : what the preset decided by what there is.
    mentioned : the options that the record mentions, besides those that were chosen.
    """
    chosen, method = choices.options, method_called(choices.options.get("method", Options.method))
    about_match = {one.name for one in options_of("match")}
    ignored = [one for one in choices.governed if one in about_match - method.uses]
    if choices.preset != Choices.preset and not method.matches_densities:
        ignored.append("preset")
    if ignored:
        raise InvalidValueError(f"{ignored[0]} is not an option of {method.name!r}; leave it out")
    if not method.matches_densities:
        return Settled(Options(**chosen), None)
    usual = {name: one.value for name, one in decided.items()}
    if choices.preset == "auto":
        usual |= AUTO
    options = Options(**{**usual, **chosen})
    if options.proportions == "adaptive" and options.mode == "individual" and not options.freeze:
        for name in ("objective", "regularisation", "solver"):
            if name in chosen:
                cause = "adaptive proportions carry the voxels, and match no densities"
                hint = "leave it out, or add --proportions average"
                raise InvalidValueError(f"--set {name}: {cause}; {hint}")
    words = [
        words(options) + (" (chosen)" if name in chosen else "")
        for name, words in _WORDS.items()
        if name in chosen or name in mentioned
    ]
    reasons = [why for name, one in decided.items() if name not in chosen for why in one.because]
    reason = listed(reasons) if reasons else None
    return Settled(
        options, PresetRecord(choices.preset, ", ".join(words), reason, choices.governed)
    )


# The only choices that channels can have together, and why.
_TOGETHER: Mapping[str, tuple[Any, str]] = {
    "mode": ("individual", "sites are matched one channel at a time"),
    "average": ("density", "quantiles are those of one channel"),
    "balance": ((), "scans are weighted for one channel at a time"),
    "proportions": ("average", "tissues of a population are known for one channel at a time"),
    "freeze": ((), "its rules choose components by the intensities of one channel"),
    "objective": ("l2", "that distance is defined for one channel"),
    "solver": ("exact", "a joint flow has a solver of its own"),
    "preset": ("auto", "the paper does not say how to normalise several channels"),
}


def settled_together(choices: Choices) -> Settled:
    """Return the options of channels that are brought to a target together.

    Raises
    ------
    InvalidValueError : for a choice that a joint map cannot honour.
    """
    given = {**choices.options, "preset": choices.preset}
    method = given.get("method", Options.method)
    if not method_called(method).maps_jointly:
        raise InvalidValueError(f"--joint: {method} takes one channel at a time; leave one out")
    expert = {one.name for one in fields(Options) if one.metadata.get("expert")}
    for name, (only, why) in _TOGETHER.items():
        if given.get(name, only) != only:
            option = f"--set {name}" if name in expert else f"--{name}"
            raise InvalidValueError(f"--joint with {option}: {why}; leave out one of them")
    options = Options(**{"regularisation": REGULARISATION, **choices.options})
    method_called(method).check(options)
    return Settled(options, PresetRecord("auto", "individual, joint target, averaged densities"))


def _mode(facts: StudyFacts, chosen: Mapping[str, Any]) -> _Decision:
    single: ModeName = "individual"
    if chosen.get("freeze"):
        return _Decision(single, ("rules for single scans (freeze)",))
    if facts.alone:
        return _Decision(single)
    if not facts.sites_known or len(facts.sites) < 2:
        return _Decision(single, (facts.site_words,))
    if sum(size >= ENOUGH_PER_SITE for size in facts.sites.values()) < _SEVERAL:
        few = f"{facts.site_words} (fewer than {_SEVERAL} with {ENOUGH_PER_SITE} or more)"
        return _Decision(single, (few,))
    return _Decision("two-level", (facts.site_words,))


def _target(facts: StudyFacts) -> _Decision:
    if facts.given is not None:
        return _target_of_given(facts.given, maps=facts.all_maps, words=facts.map_words)
    if facts.all_maps:
        return _Decision("tissue", (facts.map_words,))
    if facts.scans < ENOUGH_SCANS:
        few = f"only {plural(facts.scans, 'scan')}"
        return _Decision("average", (few,) if facts.one_labeller else (facts.map_words, few))
    if not (facts.can_split or (facts.with_maps and facts.one_labeller)):
        return _Decision("average", (facts.map_words, "no tissues that can be told apart"))
    return _Decision("adaptive", (facts.map_words,))


def _target_of_given(facts: TargetFacts, *, maps: bool, words: str) -> _Decision:
    if maps and facts.tissues == "maps":
        return _Decision("tissue", (words, f"{facts.words} with maps"))
    if facts.scans < ENOUGH_SCANS or facts.tissues is None:
        known = "" if facts.tissues or facts.scans == 1 else " without tissues"
        return _Decision("average", (f"{facts.words}{known}",))
    return _Decision("adaptive", (words, facts.words))
