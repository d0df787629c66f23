"""Real perftest outputs are judged as an expert reads them."""

from __future__ import annotations

import json

import pytest

from ndctl.checks.judge import judge_text
from ndctl.model.findings import Judgement
from ndctl.model.status import Status
from ndctl.profiles import load
from tests.checks.captures import all_captures, capture

BW = {
    "01": ("pass", "infiniband.measured", "24056.7 MB/sec = 201.8 Gb/s"),
    "02": ("unknown", "infiniband.rendezvous", "says nothing about the link"),
    "03": ("fail", "infiniband.completion", "local protection error (status 4)"),
    "04": ("fail", "infiniband.completion", "not a cable"),
    "05": ("fail", "infiniband.completion", "transport retry counter exceeded (status 12)"),
    "06": ("warn", "infiniband.small", "says nothing about the link's bandwidth"),
    "07": ("warn", "infiniband.cut", "closing line is missing"),
    "08": ("warn", "infiniband.cut", "closing line is missing"),
    "09": ("pass", "infiniband.measured", "201.8 Gb/s"),
    "11": ("unknown", "infiniband.rendezvous", "did not find each other over TCP"),
    "12": ("fail", "infiniband.port-down", "state is Down"),
    "13": ("unknown", "infiniband.memory-registration", "could not be registered"),
    "14": ("warn", "infiniband.link-layer", "forced to be called IB"),
    "16": ("warn", "infiniband.samples", "no final result"),
    "17": ("warn", "infiniband.cpu-frequency", "no fault of the link"),
    "19": ("warn", "infiniband.cpu-frequency", "no fault of the link"),
    "20": ("warn", "infiniband.measured", "= 87.3 Gb/s"),
    "21": ("pass", "infiniband.measured", "both directions together (389"),
}
LAT = {
    "10": ("pass", "infiniband.measured", "average 2.42 us at 128 B"),
    "15": ("pass", "infiniband.measured", "average 1.47 us at 2 B, 99 % below 1.57"),
    "18": ("warn", "infiniband.cpu-frequency", "may be off"),
}


def said(judgement: Judgement, check: str) -> str:
    return " ".join(f"{f.message} {f.cause}" for f in judgement.findings if f.check == check)


@pytest.mark.parametrize(
    ("tool", "number"), [("ib-write-bw", n) for n in sorted(BW)] + [("ib-write-lat", n) for n in sorted(LAT)]
)
def test_capture(tool: str, number: str) -> None:
    status, check, words = (BW if tool == "ib-write-bw" else LAT)[number]
    judgement = judge_text(tool, capture(tool, number))
    assert judgement.status == status, judgement.findings
    assert words in said(judgement, check), judgement.findings
    assert judge_text("auto", capture(tool, number)).tool == tool


def test_every_capture_is_owed_something() -> None:
    assert {file.name[:2] for file in all_captures("ib-write-bw")} == set(BW)
    assert {file.name[:2] for file in all_captures("ib-write-lat")} == set(LAT)


def test_both_sides_in_one_stream_give_each_size_once() -> None:
    facts = judge_text("ib-write-bw", capture("ib-write-bw", "09")).facts
    assert [row["bytes"] for row in facts["rows"]] == [8388608]
    assert facts["unit"] == "MB/sec"
    assert facts["both_sides"] is True
    assert facts["samples"] == 0


def test_samples_of_an_endless_run_stay_apart() -> None:
    text = capture("ib-write-bw", "07") + (
        " 65536      247166           0.00               25.92                0.049433\n"
        " 65536      403000           0.00               42.20                0.080600\n"
        "---------------------------------------------------------------------------------------\n"
    )
    judgement = judge_text("ib-write-bw", text)
    assert [row["bw_average"] for row in judgement.facts["rows"]] == [42.31, 25.92, 42.2]
    assert all(row["sample"] for row in judgement.facts["rows"])
    assert judgement.status is Status.WARN
    assert "the bandwidth falls during the run" in said(judgement, "infiniband.samples")


def test_sweep_and_columns() -> None:
    facts = judge_text("ib-write-bw", capture("ib-write-bw", "21")).facts
    assert len(facts["rows"]) == 23
    assert (facts["bidirectional"], facts["qps"], facts["link_type"]) == (True, 4, "Ethernet")
    row = judge_text("ib-write-lat", capture("ib-write-lat", "18")).facts["rows"][0]
    assert (row["t_typical"], row["t_avg"], row["t_max"], row["p99"], row["p99_9"]) == (1.9, 1.97, 12.2, 2.24, 12.2)


def test_latency_json_of_2023() -> None:
    row = judge_text("ib-write-lat", capture("ib-write-lat", "10")).facts["rows"][0]
    assert (row["bytes"], row["t_typical"], row["p99"], row["p99_9"]) == (128, 2.42, 2.47, 4.03)


def _table(average: float, *, device: str = "mlx5_ib0", link: str = "IB", title: str = "RDMA_Write BW Test") -> str:
    dashes = "-" * 87
    return (
        f"{dashes}\n                    {title}\n Dual-port       : OFF\t\tDevice         : {device}\n"
        f" Number of qps   : 4\t\tTransport type : IB\n Link type       : {link}\n{dashes}\n"
        f" local address: LID 0x17 QPN 0x0032 PSN 0x5f2841\n"
        f" remote address: LID 0x18 QPN 0x003a PSN 0xc0fd7e\n{dashes}\n"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      5000             {average:.2f}             {average:.2f}\t\t     {average / 524.288:.6f}\n"
        f"{dashes}\n"
    )


@pytest.mark.parametrize(("average", "status"), [(760.0, Status.PASS), (384.0, Status.FAIL), (196.0, Status.FAIL)])
def test_a_port_of_800_is_held_to_800(average: float, status: Status) -> None:
    judgement = judge_text("ib-write-bw", _table(average), load("gb300"))
    assert judgement.status is status
    (finding,) = (f for f in judgement.findings if f.check == "infiniband.bandwidth")
    assert "of 800" in finding.expected
    assert finding.source
    assert judge_text("ib-write-bw", _table(average)).status is Status.PASS


def test_both_directions_are_halved() -> None:
    text = _table(778.0, title="RDMA_Write Bidirectional BW Test")
    assert judge_text("ib-write-bw", text, load("gb300")).status is Status.FAIL


@pytest.mark.parametrize(("device", "link"), [("mlx5_an0", "IB"), ("mlx5_ib0", "Ethernet")])
def test_another_port_is_not_held_to_it(device: str, link: str) -> None:
    judgement = judge_text("ib-write-bw", _table(92.0, device=device, link=link), load("gb300"))
    assert judgement.status is Status.UNKNOWN
    assert "infiniband.device" in {finding.check for finding in judgement.findings}


def _report(average: float, rate: float) -> str:
    info = {"test": "RDMA_Write_BW_Test", "Device": "mlx5_ib0", "Link_type": "IB", "Number_of_qps": 4}
    results = {"MsgSize": 65536, "n_iterations": 5000, "BW_peak": average, "BW_average": average, "MsgRate": rate}
    return json.dumps({"test_info": info, "results": results}, indent=0)


@pytest.mark.parametrize(
    ("average", "rate", "unit", "status"),
    [(760.0, 760 / 0.524288, "Gb/sec", Status.PASS), (46000.0, 0.736, "MiB/sec", Status.FAIL)],
)
def test_json_tells_its_unit_by_the_message_rate(average: float, rate: float, unit: str, status: Status) -> None:
    rate = rate if unit == "MiB/sec" else rate / 1000
    judgement = judge_text("ib-write-bw", _report(average, rate), load("gb300"))
    assert judgement.facts["unit"] == unit
    assert judgement.status is status


def test_a_limit_the_test_was_given() -> None:
    judgement = judge_text("ib-write-bw", _table(300.0) + "Error: BW result is below bw limit\n")
    assert judgement.status is Status.FAIL
    assert judgement.facts["error"] == "Error: BW result is below bw limit"


def test_status_by_name_of_newer_versions() -> None:
    text = (
        " Completion with error at client\n Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81\n"
    )
    assert "status 12" in said(judge_text("ib-write-bw", text), "infiniband.completion")
