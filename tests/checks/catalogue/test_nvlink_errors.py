"""NVLink error counters between two readings: growth is a warning, recoveries an early one."""

from __future__ import annotations

from ndctl.checks.catalogue.nvlink_errors import CHECK
from ndctl.checks.judge import judge_text
from ndctl.model.findings import Finding
from ndctl.model.status import Action, Status
from tests.checks.catalogue.rack_texts import GB300, answer, healthy, node

NODE = node(3)


def listing(gpu: int = 2, link: int = 14, **changes: str) -> str:
    """`nvidia-smi nvlink -e` of four GPUs with 18 links; changes are of one link."""
    names = {
        "ok": "Link recovery successful events",
        "failed": "Link recovery failed events",
        "total": "Total link recovery events",
        "rx": "Rx Errors",
        "symbol": "Symbol Errors",
    }
    text = ""
    for index in range(4):
        text += f"GPU {index}: NVIDIA GB300 (UUID: GPU-{index})\n"
        for number in range(18):
            for key, name in names.items():
                value = changes.get(key, "0") if (index, number) == (gpu, link) else "0"
                text += f"\t Link {number}: {name}: {value}\n"
    return text


def judge(before: str, after: str) -> list[Finding]:
    texts = healthy([NODE])[NODE] | {"nvlink-errors-before": before, "nvlink-errors-after": after}
    assert CHECK.judge_node is not None
    return list(CHECK.judge_node(answer(NODE, texts), GB300))


def test_recoveries_are_one_early_warning_for_one_link() -> None:
    (bad,) = judge(listing(ok="7", total="7"), listing(ok="9", total="9"))
    assert (bad.check, bad.status, bad.action) == ("nvlink.errors.recovery", Status.WARN, Action.WATCH)
    assert bad.subject == "GPU 2 (0018:01:00.0, serial 1650002) link 14" and bad.value == 2


def test_other_errors_on_the_same_link_are_told_with_them_in_one_finding() -> None:
    (bad,) = judge(listing(), listing(ok="1", total="1", rx="40"))
    assert bad.check == "nvlink.errors" and "Rx Errors +40" in bad.message and bad.value == 40


def test_a_recovery_that_failed_is_more_than_an_early_warning() -> None:
    (bad,) = judge(listing(), listing(failed="1", total="1"))
    assert bad.check == "nvlink.errors" and "failed" in bad.message


def test_totals_are_told_and_not_judged() -> None:
    (good,) = judge(listing(ok="7", total="7"), listing(ok="7", total="7"))
    assert good.status is Status.PASS and "GPU 2 link 14 recovered most often, 7 times" in good.message


def test_counters_that_were_reset_count_anew() -> None:
    (bad,) = judge(listing(symbol="900"), listing(symbol="3"))
    assert bad.value == 3


def test_counters_that_are_not_given_are_a_skip() -> None:
    for text in ("", listing().replace(": 0", ": N/A"), "NVML: Unable to retrieve NVLink information\n"):
        assert [f.status for f in judge(text, text)] == [Status.SKIP], text[:80]


def test_a_counter_that_one_link_does_not_tell_is_said_and_the_others_are_judged() -> None:
    found = judge(listing(symbol="0"), listing(symbol="N/A"))
    assert [f.status for f in found] == [Status.SKIP, Status.PASS]
    assert found[0].subject == "GPU 2 link 14" and "can't be seen" in found[0].message
    warned = judge(listing(symbol="N/A", rx="1"), listing(symbol="N/A", rx="3"))
    assert [f.status for f in warned] == [Status.WARN, Status.SKIP]


def test_a_counter_that_no_link_tells_is_not_supported_and_no_gap() -> None:
    text = listing().replace("Symbol Errors: 0", "Symbol Errors: N/A")
    (good,) = judge(text, text)
    assert good.status is Status.PASS and "none of 288 NVLink error counters grew" in good.message


def test_a_pasted_listing_is_judged_by_what_it_tells() -> None:
    def told(text: str) -> list[tuple[str, Status]]:
        return [(f.check, f.status) for f in judge_text("nvlink-errors", text, GB300).findings]

    assert told(listing()) == [("nvlink.errors", Status.PASS)]
    assert told(listing(symbol="N/A")) == [("nvlink.errors-incomplete", Status.UNKNOWN)]
    rates_only = "".join(
        f"GPU {gpu}: NVIDIA GB300 (UUID: GPU-{gpu})\n"
        + "".join(f"\t Link {n}: Rx Errors: N/A\n\t Link {n}: Symbol BER: 15e-255\n" for n in range(18))
        for gpu in range(4)
    )
    assert told(rates_only) == [("nvlink.errors-none", Status.UNKNOWN)], "bit error rates alone are no error counters"
