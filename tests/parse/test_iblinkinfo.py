"""Lines that the real iblinkinfo printed on a simulated subnet: ports without a cable, peers that are silent."""

from __future__ import annotations

from ndctl.checks.judge import judge_text
from ndctl.model.status import Status
from ndctl.parse.iblinkinfo import parse

HEAD = "Switch: 0x0000000000200000 S-leaf0:\n"
UP = '           2    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       1    1[  ] "H-n01" ( )\n'
EMPTY = '           2    4[  ] ==(                Down/ Polling)==>             [  ] "" ( )\n'
SILENT = '           3    2[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      "Port not available"\n'


def test_a_port_without_a_cable_has_no_peer_and_is_no_fault() -> None:
    one, two = parse(HEAD + UP + EMPTY).links
    assert (one.peer, one.rate_gbps) == ("H-n01", 212.5)
    assert (two.state, two.phys_state, two.peer, two.note) == ("Down", "Polling", "", "")
    judged = judge_text("iblinkinfo", HEAD + UP + EMPTY)
    assert judged.status is Status.PASS and "1 ports without a cable" in judged.findings[0].message


def test_a_silent_peer_has_no_name() -> None:
    (link,) = parse(HEAD + SILENT).links
    assert (link.peer, link.note) == ("", "Port not available")


def test_a_query_that_timed_out_is_told() -> None:
    said = (
        "./libibnetdisc/query_smp.c:186; umad (DR path slid 0; dlid 0; 0,1,6,3,2 Attr 0x11:0) bad status 110; "
        "Connection timed out\n"
    )
    assert len(parse(said + HEAD + UP).errors) == 1
    assert judge_text("iblinkinfo", said + HEAD + UP).status is Status.WARN
