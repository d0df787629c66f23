"""Samples of nvidia-smi --query-gpu: columns by name, one mapping a sample, nothing made of what is not told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ndctl.parse.gpu_samples import parse

HEAD = (
    "index, pci.bus_id, temperature.gpu, temperature.memory, clocks.current.sm [MHz], power.draw [W], "
    "utilization.gpu [%], clocks_event_reasons.active, clocks_event_reasons_counters.hw_thermal_slowdown [us]\n"
)
ROW = "0, 00000008:01:00.0, 64, 70, 1815 MHz, 1380.10 W, 100 %, 0x0000000000000044, 1200 us\n"


def test_a_sample_begins_with_its_head() -> None:
    told = parse(HEAD + ROW + ROW.replace("0,", "1,", 1) + HEAD + ROW.replace("1815", "1500"))
    assert [sorted(sample) for sample in told.samples] == [[0, 1], [0]]
    assert [sample[0].sm_mhz for sample in told.samples] == [1815.0, 1500.0]
    first = told.samples[0][0]
    assert (first.celsius, first.memory_celsius, first.watts, first.utilization) == (64.0, 70.0, 1380.1, 100.0)
    assert first.reasons == 0x44 and first.counters == {"hw_thermal_slowdown": 1200.0}


def test_columns_are_found_by_name_and_units_may_be_missing() -> None:
    told = parse("clocks.sm, index, new.field\n1815, 3, x\n")
    assert told.samples[0][3].sm_mhz == 1815.0 and told.unknown_fields == ("new.field",)


def test_what_is_not_told_is_none() -> None:
    row = ROW.replace("64", "N/A").replace("1815 MHz", "[Not Supported]").replace("0x0000000000000044", "[N/A]")
    reading = parse(HEAD + row.replace("1200 us", "[N/A]")).samples[0][0]
    assert reading.celsius is reading.sm_mhz is reading.reasons is None and reading.counters == {}


def test_a_field_the_driver_does_not_know_is_said() -> None:
    told = parse('Field "temperature.gpu.tlimit" is not a valid field to query.\n')
    assert told.samples == () and "temperature.gpu.tlimit" in told.problems[0]


def test_a_torn_row_is_left_out() -> None:
    told = parse(HEAD + ROW[:40] + "\n" + ROW)
    assert list(told.samples[0]) == [0] and told.problems == ("a row does not fit its head",)


@given(st.integers(0, len(HEAD + ROW)))
def test_cut_anywhere_nothing_else_is_read(end: int) -> None:
    for sample in parse((HEAD + ROW)[:end]).samples:
        assert sample[0].celsius in (64.0, 6.0, None)
        assert sample[0].sm_mhz in (1815.0, None) or end < len(HEAD + ROW) - 10
