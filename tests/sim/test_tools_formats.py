"""What the stand-in tools print, held to real captures: same headers, same columns, same line shapes.

Nothing here uses ndctl.parse: a wrong parser and a wrong simulator must not be able to agree.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator

import pytest

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world import World

Run = Callable[..., Answer]
Capture = Callable[[str], str]

# Values that are another machine's, or another moment's.
_OF_ONE_MACHINE = {
    "pdi", "vbios_version", "board_id", "gpu_virtualization_mode/virtualization_mode", "platformInfo/gpu_fabric_guid",
    "display_attached", "fabric/clusterUuid", "pci/pci_bus_id", "pci/pci_domain", "inforom_version/img_version",
}  # fmt: skip


def shape(text: str) -> str:
    """A text with its numbers, hexadecimal numbers and runs of blanks made equal."""
    text = re.sub(r"GPU-[0-9a-fx-]+", "GPU-#", text.expandtabs(8))
    text = re.sub(r"0x[0-9a-f]+", "#", text)
    return re.sub(r" +", " ", re.sub(r"\d+(\.\d+)*", "#", text)).strip()


def leaves(element: ET.Element, path: str = "") -> Iterator[str]:
    for child in element:
        here = f"{path}/{child.tag}" if path else child.tag
        yield from leaves(child, here) if len(child) else [here]


class TestNvidiaSmi:
    def test_nvlink_status_lines_are_those_of_an_h100(self, run: Run, capture: Capture) -> None:
        real = [shape(line) for line in capture("nvidia-smi/nvlink-status-h100.txt").splitlines()]
        ours = [shape(line) for line in run("rack01-n01", "nvidia-smi", "nvlink", "--status").out.splitlines()]
        assert ours[0] == real[0].replace("H# #GB HBM#", "GB#")
        assert set(ours[1:19]) == set(real[1:19]) and len(ours) == 4 * 19

    def test_table_has_the_real_frame(self, run: Run, capture: Capture) -> None:
        real = capture("nvidia-smi/table-h200-565.txt").splitlines()
        ours = run("rack01-n01", "nvidia-smi").out.splitlines()
        assert {len(line) for line in ours[1:] if line} == {len(line) for line in real[1:] if line} == {91}
        assert ours[3:8] == real[3:8]
        assert shape(ours[2]) == shape(real[2])
        assert [shape(line.replace("NVIDIA GB300", "N")) for line in ours[8:11]] == [
            shape(line.replace("NVIDIA H200", "N").replace("Off |", "On |", 1)) for line in real[8:11]
        ]
        assert ours[-5].split() == real[-5].split() or ours[-4].split() == real[-4].split()
        assert ours[-2:] == real[-2:]

    def test_xml_tags_are_those_of_a_gb300_in_its_order(self, run: Run, capture: Capture) -> None:
        real = capture("nvidia-smi-xml/50-gb300-driver-580-without-supported-clocks.xml")
        text = run("rack01-n01", "nvidia-smi", "-q", "-x").out
        assert text.splitlines()[:3] == real.splitlines()[:3]
        gpus, real_gpus = (ET.fromstring(one).findall("gpu") for one in (text, real))
        assert len(gpus) == len(real_gpus) == 4
        for ours, theirs in zip(gpus, real_gpus, strict=True):
            assert list(leaves(ours)) == list(leaves(theirs))

    def test_xml_values_look_like_those_of_a_gb300(self, run: Run, capture: Capture) -> None:
        real = ET.fromstring(capture("nvidia-smi-xml/50-gb300-driver-580-without-supported-clocks.xml")).find("gpu")
        ours = ET.fromstring(run("rack01-n01", "nvidia-smi", "-q", "-x").out).find("gpu")
        assert real is not None and ours is not None
        untold = {path for path in leaves(ours) if ours.findtext(path) == "N/A"}
        odd = {
            path: (ours.findtext(path), real.findtext(path))
            for path in set(leaves(ours)) - untold - _OF_ONE_MACHINE
            if shape(ours.findtext(path) or "") != shape(real.findtext(path) or "")
        }
        assert odd == {}

    def test_xml_values_carry_the_units_of_driver_580(self, run: Run, capture: Capture) -> None:
        real = ET.fromstring(capture("nvidia-smi/xml-rtx-pro-6000-580-trimmed.xml")).find("gpu")
        ours = ET.fromstring(run("rack01-n01", "nvidia-smi", "-q", "-x").out).find("gpu")
        assert real is not None and ours is not None
        for tag in ("temperature/gpu_temp", "temperature/gpu_temp_tlimit", "gpu_power_readings/instant_power_draw"):
            assert shape(ours.findtext(tag) or "") == shape(real.findtext(tag) or ""), tag

    def test_text_report_lines_up_like_the_real_one(self, run: Run, capture: Capture) -> None:
        real = capture("nvidia-smi/fabric-insufficient-resources.txt").splitlines()
        text = run("rack01-n01", "nvidia-smi", "-q").out
        for line in real[1:]:
            label = line.split(":")[0].strip()
            found = re.search(rf"^        {label} +: ", text, re.M)
            assert found and found.end() - found.start() == 44
        assert text.startswith(
            "\n==============NVSMI LOG==============\n\nTimestamp                                 : "
        )

    def test_text_and_xml_tell_the_same(self, world: World, run: Run) -> None:
        world.faults.add("row-remap-pending", node="rack01-n01", gpu=1)
        text = run("rack01-n01", "nvidia-smi", "-q", "-d", "ROW_REMAPPER").out
        gpus = ET.fromstring(run("rack01-n01", "nvidia-smi", "-q", "-x").out).findall("gpu")
        pending = [gpu.findtext("remapped_rows/remapped_row_pending") for gpu in gpus]
        assert re.findall(r"Pending +: (\w+)", text) == pending == ["No", "Yes", "No", "No"]
        assert "Temperature" not in text

    def test_csv_has_the_fields_asked_for_in_their_order_and_with_units(self, run: Run) -> None:
        out = run("rack01-n01", "nvidia-smi", "--query-gpu=index,memory.total,pci.bus_id", "--format=csv").out
        lines = out.splitlines()
        assert lines[0] == "index, memory.total [MiB], pci.bus_id"
        assert re.fullmatch(r"0, \d+ MiB, 00000008:01:00\.0", lines[1])
        bare = run("rack01-n01", "nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits").out
        assert re.fullmatch(r"(\d+\n){4}", bare)

    @pytest.mark.parametrize(
        ("arguments", "words", "code"),
        [
            (("--query-gpu=index,cuda_version", "--format=csv"), '"cuda_version" is not a valid field', 2),
            (("-q", "-d", "NOTHING"), "NOTHING", 2),
            (("--frobnicate",), "--frobnicate", 2),
            (("-i", "9"), "No devices were found", 6),
        ],
    )  # fmt: skip
    def test_what_it_does_not_know_is_an_error(
        self, run: Run, arguments: tuple[str, ...], words: str, code: int
    ) -> None:
        answer = run("rack01-n01", "nvidia-smi", *arguments)
        assert words in answer.out and answer.code == code

    def test_error_counters_name_what_nvlink_5_counts(self, run: Run) -> None:
        lines = run("rack01-n01", "nvidia-smi", "nvlink", "-e").out.splitlines()
        names = [line.split(": ")[1] for line in lines if line.startswith("\t Link 0: ")][: 18 + 16]
        for name in (
            "Malformed packet Errors",
            "Link recovery failed events",
            "Effective BER",
            "Symbol Errors",
            "Tx discards",
        ):
            assert name in names
        assert "\t Link 0: Effective BER: 15e-255" in lines

    def test_topology_is_nv18_between_all_gpus(self, run: Run) -> None:
        rows = [line.split("\t") for line in run("rack01-n01", "nvidia-smi", "topo", "-m").out.splitlines()]
        assert rows[0][1:5] == ["GPU0", "GPU1", "GPU2", "GPU3"]
        assert sum(cell == "NV18" for row in rows[1:5] for cell in row) == 12
        assert [rows[1 + i][1 + i] for i in range(4)] == [" X "] * 4


class TestImex:
    def test_text_is_the_real_one_line_by_line(self, run: Run, capture: Capture) -> None:
        real = capture("imex/text-18-nodes-up.txt").splitlines()
        ours = run("rack01-n01", "nvidia-imex-ctl", "-N").out.splitlines()
        start = ours.index(real[0])
        assert [shape(line) for line in ours[start:]] == [shape(line) for line in real]
        columns = [line.index("- READY") for line in real if "READY" in line]
        assert [line.index("- READY") for line in ours if "READY" in line] == columns
        matrix = real.index(next(line for line in real if "From\\To" in line))
        assert ours[start + matrix :] == real[matrix:]

    def test_json_has_a_connection_from_every_node_to_every_node(self, run: Run) -> None:
        answer = json.loads(run("rack01-n05", "nvidia-imex-ctl", "-N", "-j").out)
        assert list(answer) == ["nodes", "timestamp", "status"] and answer["status"] == "UP"
        assert len(answer["nodes"]) == 18
        node = answer["nodes"]["0"]
        assert set(node) == {"status", "host", "hostName", "connections", "changed", "version"}
        assert node["connections"]["17"] == {"host": "127.66.1.18", "status": "CONNECTED", "changed": True}


class TestInfiniBand:
    def test_ibv_devinfo_is_laid_out_like_an_azure_node(self, run: Run, capture: Capture) -> None:
        real = capture("ib/ibv-devinfo-azure-h200.txt").split("\n\n")[0].splitlines()
        ours = run("rack01-n01", "ibv_devinfo", "-d", "mlx5_ib0").out.split("\n\n")[0].splitlines()
        assert [line.split(":")[0] for line in ours] == [line.split(":")[0] for line in real]
        assert [re.search(r"\t+", line[3:]) and line.count("\t") for line in ours] == [
            re.search(r"\t+", line[3:]) and line.count("\t") for line in real
        ]

    def test_ibstat_has_the_real_labels(self, run: Run, capture: Capture) -> None:
        real = [line.strip().split(":")[0] for line in capture("ib/ibstat-ndr400.txt").splitlines()[1:]]
        ours = [line.strip().split(":")[0] for line in run("rack01-n01", "ibstat", "mlx5_ib0").out.splitlines()]
        assert ours[1:] == real[1:]
        assert "Rate: 800" in run("rack01-n01", "ibstat", "mlx5_ib0").out


class TestKernelLog:
    def test_xid_lines_are_those_of_a_gb200(self, world: World, run: Run, capture: Capture) -> None:
        world.faults.add("nvlink-down", node="rack01-n01", gpu=1, link=1)
        real = {shape(line.split("] ")[1]) for line in capture("kernel-log/xid149-gb200-cascade.txt").splitlines()}
        ours = [line.split("] ", 1)[1] for line in run("rack01-n01", "dmesg").out.splitlines() if "Xid" in line]
        fatal = next(line for line in ours if ": 149," in line)
        assert shape(fatal) in real and "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x" in fatal
        assert any(shape(line) in real for line in ours if ": 154," in line)
        # The link stands in the information word as it does in the capture: bits 13 to 17.
        word = int(re.search(r"\((0x[0-9a-f]+)", fatal)[1], 16)  # type: ignore[index]
        for line in capture("kernel-log/xid149-gb200-cascade.txt").splitlines():
            if found := re.search(r"Link (\d+) \((0x[0-9a-f]+)", line):
                assert int(found[2], 16) >> 13 & 0x1F == int(found[1])
        assert word >> 13 & 0x1F == 1

    def test_a_healthy_node_has_no_xid_and_journal_and_dmesg_agree(self, run: Run) -> None:
        journal = run("rack01-n01", "journalctl", "-k", "-b", "-o", "short-iso-precise", "--no-pager").out.splitlines()
        ring = run("rack01-n01", "dmesg").out.splitlines()
        assert not any("Xid" in line for line in journal)
        assert [line.split(" kernel: ")[1] for line in journal] == [line.split("] ", 1)[1] for line in ring]
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00 rack01-n01 kernel: ", journal[0])


def test_dcgm_json_is_the_tree_of_version_4(world: World, run: Run) -> None:
    world.faults.add("row-remap-pending", node="rack01-n02", gpu=3)
    good, bad = run("rack01-n01", "dcgmi", "diag", "-r", "1", "-j"), run("rack01-n02", "dcgmi", "diag", "-r", "1", "-j")
    tests = [test for c in json.loads(good.out)["DCGM Diagnostic"]["test_categories"] for test in c["tests"]]
    assert [test["test_summary"]["status"] for test in tests] == ["Pass"] and good.code == 0
    software = json.loads(bad.out)["DCGM Diagnostic"]["test_categories"][0]["tests"][0]
    assert software["test_summary"]["status"] == "Fail" and bad.code != 0
    failed = [result for result in software["results"] if result["status"] == "Fail"]
    assert [result["entity_id"] for result in failed] == [3] and "remappings are pending" in str(failed[0]["warnings"])


def test_the_host_answers_for_the_node(run: Run) -> None:
    assert run("rack01-n01", "nproc").out == "128\n"
    assert "NUMA node(s):" in run("rack01-n01", "lscpu").out and "NUMA node33 CPU(s):" in run("rack01-n01", "lscpu").out
    assert run("rack01-n01", "uname", "-m").out == "aarch64\n"
    disks = json.loads(run("rack01-n01", "nvme", "list", "-o", "json").out)["Devices"]
    assert sum("NVMe Direct Disk" in disk["ModelNumber"] for disk in disks) == 4 and len(disks) == 5
    assert run("rack01-n01", "lspci", "-n", "-d", "10de:").out.count(" 0302: 10de:31c2") == 4
    url = "http://169.254.169.254/metadata/instance/compute?api-version=2021-02-01"
    compute = json.loads(run("rack01-n01", "curl", "-s", "-H", "Metadata:true", url).out)
    assert compute["vmScaleSetName"] == "lab-rack01" and isinstance(compute["platformFaultDomain"], str)
    assert "error" in run("rack01-n01", "curl", "-s", url).out
