"""The archs a build is asked for: tokens such as `90a`, checked against the profiles and the compiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from .diagnostics import did_you_mean
from .models.arch import ArchProfile

NAMED_SETS: Mapping[str, str] = {"small": "80 90a", "all": ""}
"""Words that stand for tokens in every tree. Variants of the specs add more.

`all` is the gencode of every profile, and the tokens beside its name.
"""
DEFAULT_SET = "small"

_TOKEN = re.compile(r"(?:sm_)?(?P<major>\d+?)(?P<dot>\.?)(?P<minor>\d)(?P<suffix>[a-z]?)(?P<ptx>(?:\+PTX)?)")
_RENUMBERED = {(10, 1): "compute capability 10.1 is 11.0 since CUDA 13.0; ask for 110a"}


class ArchTokenError(ValueError):
    """Every token of a list that names no machine code, one sentence a line."""


@dataclass(frozen=True)
class BuildArch:
    """One image to build. `token` is what was written; `image` the compiler's name, such as sm_90a.

    `ptx`: its kernels are kept as PTX too, which drivers translate for devices that came later.
    """

    profile: ArchProfile
    token: str
    cc: tuple[int, int]
    suffix: str
    ptx: bool = False

    @property
    def image(self) -> str:
        return f"sm_{self.cc[0]}{self.cc[1]}{self.suffix}"


def parse_arch_tokens(
    text: str,
    profiles: Iterable[ArchProfile],
    note: Callable[[str], None] = lambda message: None,
    sets: Mapping[str, str] = NAMED_SETS,
) -> tuple[BuildArch, ...]:
    """The images that `text` asks for, in the order of the profiles.

    Tokens are separated by `;`, `,` or blanks: `90a`, `9.0a`, `sm_90a`, `89+PTX`, or a word of `sets`. Each is matched
    whole. ArchTokenError quotes every token that names none; a repeated image is kept once and reported through `note`.
    """
    by_cc = {profile.cc: profile for profile in profiles if profile.cc is not None and profile.gencode is not None}
    wanted: dict[str, BuildArch] = {}
    problems: list[str] = []
    for token in _expand(text, by_cc.values(), sets):
        try:
            arch = _parse(token, by_cc, sets)
        except ArchTokenError as error:
            problems.append(str(error))
            continue
        known = wanted.get(arch.image)
        if known is not None and (known.ptx or not arch.ptx):
            note(f"arch token '{token}' repeats '{known.token}'")
            continue
        wanted[arch.image] = arch
    if problems:
        raise ArchTokenError("\n".join(problems))
    if not wanted:
        raise ArchTokenError(f"arch list '{text}' is empty; expected tokens such as 80, 90a or {_set_names(sets)}")
    order = list(by_cc)
    return tuple(sorted(wanted.values(), key=lambda arch: (order.index(arch.cc), arch.suffix)))


def check_toolkit(archs: Iterable[BuildArch], version: str) -> None:
    """ArchTokenError for every image that this CUDA version (such as 13.5) cannot compile."""
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", version):
        raise ArchTokenError(f"'{version}' is no CUDA version; one such as 13.5 is expected")
    found = _version(version)
    problems = [
        f"arch token '{arch.token}': {arch.image} needs CUDA {needed} or newer; the compiler is {version}"
        for arch in archs
        if found < _version(needed := _needed(arch))
    ]
    if problems:
        raise ArchTokenError("\n".join(problems))


def _needed(arch: BuildArch) -> str:
    needed = arch.profile.min_cuda or "0"
    return max(needed, "12.9", key=_version) if arch.suffix == "f" else needed


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def _expand(text: str, profiles: Iterable[ArchProfile], sets: Mapping[str, str]) -> Iterable[str]:
    for token in re.split(r"[;,\s]+", text.strip()):
        if token == "all":
            yield from _all(profiles, sets.get("all", "").split())
        elif token in sets:
            yield from sets[token].split()
        elif token:
            yield token


def _all(profiles: Iterable[ArchProfile], extra: Iterable[str]) -> Iterable[str]:
    """Every profile once, as PTX too where `extra` says so."""
    more = {token.removesuffix("+PTX"): token for token in extra}
    return (more.get(gencode, gencode) for gencode in (str(profile.gencode) for profile in profiles))


def _parse(token: str, by_cc: Mapping[tuple[int, int], ArchProfile], sets: Mapping[str, str]) -> BuildArch:
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise ArchTokenError(f"arch token '{token}' is not understood; {_expected(token, by_cc, sets)}")
    cc = (int(match["major"]), int(match["minor"]))
    if cc in _RENUMBERED:
        raise ArchTokenError(f"arch token '{token}': {_RENUMBERED[cc]}")
    profile = by_cc.get(cc)
    if profile is None:
        unknown = f"no arch of the specs has cc {cc[0]}.{cc[1]}; {_known(by_cc, sets)}"
        raise ArchTokenError(f"arch token '{token}': {unknown}")
    suffix = match["suffix"]
    allowed = _suffixes(profile)
    if suffix not in allowed:
        raise ArchTokenError(f"arch token '{token}': {_wrong_suffix(profile, suffix, allowed)}")
    if match["ptx"] and suffix:
        raise ArchTokenError(f"arch token '{token}': {_not_portable(suffix, by_cc)}")
    return BuildArch(profile, token, cc, suffix, bool(match["ptx"]))


def portable(profile: ArchProfile) -> bool:
    """Whether PTX of the arch runs on every later device: that of a target with `a` or `f` does not."""
    return profile.gencode is not None and profile.gencode[-1].isdecimal()


def _not_portable(suffix: str, by_cc: Mapping[tuple[int, int], ArchProfile]) -> str:
    found = [str(profile.gencode)[3:] for profile in by_cc.values() if portable(profile)]
    ask = f"; ask for {found[-1]}+PTX" if found else ""
    return f"PTX of a target with '{suffix}' runs on no later device{ask}"


def _suffixes(profile: ArchProfile) -> tuple[str, ...]:
    """Suffixes of images that hold everything the profile's tiles need.

    `a` and `f` name the same instructions, and `f` exists from 10.0 on; a plain image lacks them.
    """
    assert profile.cc is not None and profile.gencode is not None
    preferred = profile.gencode[-1] if profile.gencode[-1].isalpha() else ""
    if preferred and profile.cc[0] >= 10:
        return (preferred, "f" if preferred == "a" else "a")
    return (preferred,)


def _wrong_suffix(profile: ArchProfile, suffix: str, allowed: tuple[str, ...]) -> str:
    assert profile.cc is not None
    number = f"{profile.cc[0]}{profile.cc[1]}"
    fitting = " or ".join(number + letter for letter in allowed)
    if not suffix:
        return f"kernels of {profile.name} use instructions that a plain target lacks; ask for {fitting}"
    return f"there is no target sm_{number}{suffix} for {profile.name}; ask for {fitting}"


def _expected(token: str, by_cc: Mapping[tuple[int, int], ArchProfile], sets: Mapping[str, str]) -> str:
    lowered = token.lower()
    bare = re.sub(r"(-real|-virtual|\+ptx)$", "", lowered)
    if lowered.endswith("-real"):
        return f"machine code is built without a word for it, so leave out '{token[len(bare) :]}'"
    if bare != lowered and _TOKEN.fullmatch(bare):
        return f"did you mean '{bare}+PTX'?"
    if bare != lowered and bare in sets:
        return f"'+PTX' stands behind one arch, not behind '{token[: len(bare)]}'"
    if lowered != token and (lowered in sets or _TOKEN.fullmatch(lowered)):
        return f"did you mean '{lowered}'?"
    known = [str(profile.gencode)[3:] for profile in by_cc.values()]
    return did_you_mean(token, [*sets, *known]) or _known(by_cc, sets)


def _known(by_cc: Mapping[tuple[int, int], ArchProfile], sets: Mapping[str, str]) -> str:
    return f"expected one of {', '.join(str(profile.gencode)[3:] for profile in by_cc.values())} or {_set_names(sets)}"


def _set_names(sets: Mapping[str, str]) -> str:
    return " or ".join(f"'{name}'" for name in sets)
