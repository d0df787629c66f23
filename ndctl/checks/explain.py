"""What a word of an answer means: a check, a finding's id, an XID, or an Azure error code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from ndctl.checks.azure_errors import KnownError, known_errors
from ndctl.checks.pages import Page, page_by_detail, page_of, pages, threshold
from ndctl.checks.texts import xids
from ndctl.model.errors import ExitCode, NdctlError
from ndctl.model.status import Action
from ndctl.profiles.schema import Profile

EXPLAIN_SCHEMA = "ndctl.explain/1"
_XID = re.compile(r"(?:xid[\s:_-]*|gpu\.xid\.|kernel\.xid-)?(\d{1,3})", re.IGNORECASE)
_LINK_EVENTS = range(144, 151)


@dataclass(frozen=True, slots=True)
class Explanation:
    """One page for a person.

    kind:  "check", "xid", "azure-error", or "list": what can be explained
    means: what it is
    facts: name -> text, in the order they are shown
    lists: name -> texts, e.g. what to do
    """

    kind: str
    word: str
    means: str
    facts: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def explain(word: str, profile: Profile, titles: Mapping[str, str] | None = None) -> Explanation:
    """The explanation of a word. `titles`: check id -> its one-line title.

    Raises NdctlError exit 2 for a word that nothing is known of, with those spelled most like it.
    """
    asked = word.strip()
    number = _XID.fullmatch(asked)
    if number and (int(number[1]) in xids.XIDS or "." not in asked):
        return _xid(int(number[1]))
    found = page_of(asked.casefold()) or page_by_detail(asked.casefold())
    if found is not None:
        return _check(*found, profile, titles or {})
    errors = [entry for entry in known_errors() if entry.names(asked) or entry.id == asked.casefold()]
    errors = errors or [entry for entry in known_errors() if entry.resembles(asked, "")]
    if errors:
        return _azure(asked, errors)
    by_folded = {one.casefold(): one for one in words()}
    near = get_close_matches(asked.casefold(), by_folded, n=3)
    raise NdctlError(
        "explain.unknown",
        f"nothing is known of '{asked}'",
        hint="did you mean " + " or ".join(by_folded[one] for one in near) + "?"
        if near
        else "a check (ndctl checks lists them), an XID number, or an Azure error code",
        exit_code=ExitCode.USAGE,
    )


def words() -> Iterable[str]:
    """Every word that can be explained."""
    # A bare number is taken for an XID.
    codes = {code for entry in known_errors() for code in entry.codes if not code.isdigit()}
    details = (f"{page.check}.{suffix}" for page in pages().values() for suffix in page.details)
    return (*pages(), *details, *map(str, sorted(xids.XIDS)), *sorted(codes))


def listing(titles: Mapping[str, str]) -> Explanation:
    """What can be explained, by group. `titles`: check id -> its one-line title."""
    lists: dict[str, tuple[str, ...]] = {}
    for check in (*titles, *(one for one in pages() if one not in titles)):
        group = check.partition(".")[0]
        lists[group] = (*lists.get(group, ()), f"{check}: {titles[check]}" if check in titles else check)
    codes = {code for entry in known_errors() for code in entry.codes if not code.isdigit()}
    lists["XIDs"] = (", ".join(map(str, sorted(xids.XIDS))),)
    lists["Azure error codes"] = (", ".join(sorted(codes, key=str.casefold)),)
    means = "a check, a finding's id, an XID or an Azure error code; these are known"
    return Explanation("list", "ndctl explain WORD", means, {"XID table": xids.SOURCE}, lists)


def _check(page: Page, suffix: str, profile: Profile, titles: Mapping[str, str]) -> Explanation:
    limit = threshold(page, profile)
    detail = page.details.get(suffix, "")
    source = "; ".join(dict.fromkeys((*limit.sources, *(() if page.source == "the profile" else (page.source,)))))
    facts = {
        "not known": _not_known(suffix) if suffix and not detail else "",
        "its check": page.means if detail else "",
        "what it says": titles.get(page.check, ""),
        "measured": page.measured,
        "threshold": f"{limit.text}   (profile {profile.name})",
        "source": source or page.source,
        "cost": f"about {page.cost_s:g} s",
    }
    others = tuple(f"{page.check}.{name}: {text}" for name, text in page.details.items() if name != suffix)
    return Explanation(
        "check",
        f"{page.check}.{suffix}" if detail else page.check,
        detail or page.means,
        {name: text for name, text in facts.items() if text},
        {"do": page.do, "false alarms": page.false_alarms, "other findings" if detail else "its findings": others},
    )


def _not_known(suffix: str) -> str:
    """A finding that is not told: a newer driver's XID, or a word that somebody mistyped."""
    if suffix.isdigit():
        return f"XID {suffix} is in no catalogue that ndctl knows ({xids.SOURCE})"
    return f"'{suffix}' is none of its findings"


def _xid(number: int) -> Explanation:
    known = xids.XIDS.get(number)
    if known is None:
        raise NdctlError(
            "explain.unknown",
            f"XID {number} is in no catalogue that ndctl knows",
            hint=f"{xids.SOURCE}; see NVIDIA's XID catalogue for newer drivers",
            exit_code=ExitCode.USAGE,
        )
    facts = {"tier": known.tier.value, "alone it is": _alone(known), "action": known.action.value}
    if number == 149:
        facts["action"] = f"{Action.REPLACE_AND_REPORT.value} where it is the root, else {known.action.value}"
    if number == 154:
        facts["action"] = "as the driver says in brackets"
    if number in xids.CATEGORY:
        facts["Azure health"] = xids.CATEGORY[number]
    facts["source"] = xids.SOURCE
    return Explanation("xid", f"XID {number}", known.meaning, facts, _xid_lists(number))


def _alone(known: xids.Xid) -> str:
    """What `gpu.xid` makes of it where no other part's fault explains it."""
    if known.number == 149:
        return "a fault when it is Fatal, unless its reason names the peer or software; else a warning"
    if known.tier is xids.Tier.NVLINK5:
        return "a fault when it is Fatal, else a warning"
    if known.tier is xids.Tier.RECOVERY:
        return "a fault with any action but None"
    if known.tier in (xids.Tier.RESET, xids.Tier.RESTART) or known.number in xids.HARDWARE:
        return "a fault"
    if known.tier in (xids.Tier.NOTICE, xids.Tier.SUPPORT) or known.number == 94:
        return "a warning"
    return "told, no fault"


_FORM = (
    "UNIT Fatal|Nonfatal XCn iN Link NN (words): the unit that complains, how severe, which link, register words",
    "i1 was injected by a test; Link -1 is of no single link; the first word in the brackets holds unit and reason",
    "units: SAW 144, RLW 145, TLW 146, TREX 147, NVLPW 148, NETIR 149 (the link itself), MSE 150",
)


def _xid_lists(number: int) -> Mapping[str, tuple[str, ...]]:
    if number == 149:
        by_cause: dict[str, list[int]] = {}
        for reason in range(64):
            by_cause.setdefault(xids.link_down_cause(reason), []).append(reason)
        default = xids.link_down_cause(63)
        rows = [
            f"reason {', '.join(map(str, reasons))}: {cause}" for cause, reasons in by_cause.items() if cause != default
        ]
        return {
            "how it is read": (
                *_FORM,
                "example: 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 …)",
                "the reason of a link-down is (first word >> 20) & 0x3f: 0x004505c6 gives 4",
                *rows,
                f"any other reason: {default}",
            ),
            "who is to blame": (
                "the GPU with the 149, unless its reason names the peer; XIDs 45 and 145 of others near it in time "
                "are its consequences",
                "several GPUs whose 149 names the peer, on one link index: suspect the switch plane",
            ),
        }
    if number in _LINK_EVENTS:
        return {
            "how it is read": _FORM,
            "who is to blame": (
                "seldom this GPU alone: look for an XID 149 in the rack within a minute, it explains this one",
                "an XID 154 beside it says what to do; obey that",
            ),
        }
    if number == 45:
        return {"who is to blame": ("another XID beside it; alone it is a killed process or a stopped daemon",)}
    if number == 154:
        return {"how it is read": ("the words in brackets, e.g. (GPU Reset Required), go before any table",)}
    if number == 79:
        return {"do": ("save the evidence before a reboot or redeploy, then replace and report the node",)}
    return {}


def _azure(word: str, entries: list[KnownError]) -> Explanation:
    first = entries[0]
    retry = {"now": "at once", "later": "later, unchanged", "never": "not unchanged"}[first.retry]
    facts = {"class": first.fault_class.value, "try again": retry, "do": first.next, "source": first.source}
    others = tuple(f"with other words, {one.fault_class.value}: {one.meaning} {one.next}" for one in entries[1:])
    code = next((code for code in first.codes if code.casefold() == word.casefold()), word)
    return Explanation("azure-error", code, first.meaning, facts, {"it may also mean": others})
