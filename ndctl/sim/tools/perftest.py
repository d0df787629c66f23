"""ib_write_bw and its kin: what the two sides print.

Layout of perftest 24-25: banner, addresses, column header, one row for each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ndctl.sim.world import seeds
from ndctl.sim.world.parts import Port
from ndctl.sim.world.view import NodeView

_RULE = "-" * 87 + "\n"
_TITLES = {
    "ib_write_bw": "RDMA_Write BW Test",
    "ib_read_bw": "RDMA_Read BW Test",
    "ib_send_bw": "Send BW Test",
    "ib_write_lat": "RDMA_Write Latency Test",
}
_VALUED = {
    "-d",
    "--ib-dev",
    "-p",
    "--port",
    "-s",
    "--size",
    "-n",
    "--iters",
    "-D",
    "--duration",
    "-i",
    "--ib-port",
    "-q",
    "--qp",
    "-x",
    "--gid-index",
    "-m",
    "--mtu",
    "-t",
    "--tx-depth",
    "-S",
    "--sl",
    "--use_cuda",
    "--out_json_file",
    "-Q",
    "--cq-mod",
    "-u",
    "--qp-timeout",
    "-l",
    "--post_list",
    "--source_ip",
    "--bind_source_ip",
}
# What a healthy port carries of its line rate (400G: 392-396 measured; 800G has no public figure, taken alike).
_EFFICIENCY = 0.985


@dataclass(frozen=True, slots=True)
class Options:
    tool: str
    device: str = ""
    port: int = 18515
    size: int = 65536
    iterations: int = 5000
    duration: int = 0
    all_sizes: bool = False
    both_ways: bool = False
    gbits: bool = False
    host: str = ""

    @classmethod
    def read(cls, tool: str, arguments: Sequence[str]) -> Options:
        values: dict[str, str] = {}
        flags: set[str] = set()
        host = ""
        rest = iter(arguments)
        for argument in rest:
            name, equals, value = argument.partition("=")
            if name in _VALUED:
                values[name] = value if equals else next(rest, "")
            elif argument.startswith("-"):
                flags.add(argument)
            else:
                host = argument

        def number(default: int, *names: str) -> int:
            return next((int(values[name]) for name in names if name in values), default)

        return cls(
            tool=tool,
            device=values.get("-d", values.get("--ib-dev", "")),
            port=number(18515, "-p", "--port"),
            size=number(2 if tool.endswith("lat") else 65536, "-s", "--size"),
            iterations=number(5000, "-n", "--iters"),
            duration=number(0, "-D", "--duration"),
            all_sizes=bool(flags & {"-a", "--all"}),
            both_ways=bool(flags & {"-b", "--bidirectional"}),
            gbits="--report_gbits" in flags,
            host=host,
        )


def device_of(options: Options, view: NodeView) -> Port | None:
    """The device asked for, or the first one as perftest picks it."""
    if not options.device:
        return view.ports[0]
    return next((port for port in view.ports if port.device == options.device), None)


def no_device(options: Options) -> str:
    return f"IB device {options.device} not found\n Unable to find the Infiniband/RoCE device\n"


PORT_DOWN = " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n"
_STARS = "*" * 36 + "\n"
WAITING = f"\n{_STARS}* Waiting for client to connect... *\n{_STARS}"


def refused(options: Options) -> str:
    return (
        f"Couldn't connect to {options.host}:{options.port}\nUnable to open file descriptor for socket connection"
        " Unable to init the socket connection\n"
    )


RETRY_EXCEEDED = (
    " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n"
    " Failed to complete run_iter_bw function successfully\n"
)


def banner(options: Options, own: Port, peer: Port, own_id: str, peer_id: str, *, client: bool) -> str:
    """From the title to the remote address. `*_id`: what the queue pair's numbers depend on."""
    text = (
        _RULE
        + " " * 20
        + _TITLES[options.tool].replace("BW Test", "Bidirectional BW Test" if options.both_ways else "BW Test")
        + "\n"
    )
    pairs = [
        ("Dual-port", "OFF\t\tDevice         : " + own.device),
        ("Number of qps", "1\t\tTransport type : IB"),
        ("Connection type", "RC\t\tUsing SRQ      : OFF"),
        ("PCIe relax order", "ON\t\tLock-free      : OFF"),
        ("ibv_wr* API", "ON\t\tUsing DDP      : OFF"),
        *([("TX depth", "128")] if client or options.both_ways else []),
        ("CQ Moderation", "1"),
        ("Mtu", "4096[B]"),
        ("Link type", "IB" if own.infiniband else "Ethernet"),
        ("Max inline data", "0[B]"),
        ("rdma_cm QPs", "OFF"),
        ("Data ex. method", "Ethernet"),
    ]
    text += (
        "".join(f" {name:<16}: {value}\n" if len(name) < 16 else f" {name}: {value}\n" for name, value in pairs) + _RULE
    )
    return text + f" local address: {_address(own, own_id)}\n remote address: {_address(peer, peer_id)}\n" + _RULE


def _address(port: Port, identity: str) -> str:
    raw = seeds.digest("qp", identity).hex()
    lid = f"0x{port.lid:02x}" if port.infiniband else "0000"
    return f"LID {lid} QPN 0x{raw[:4]} PSN 0x{raw[4:10]} RKey 0x{raw[10:16]} VAddr 0x00{raw[16:30]}"


def gbps(options: Options, own: Port, peer: Port, size: int, *noise: object) -> float:
    """Average Gb/s one way (both ways together with -b): the slower of the two ports, less for small messages."""
    line = min(own.rate_gbps, peer.rate_gbps)
    factor = (2 if options.both_ways else 1) * size / (size + 9000)
    return line * _EFFICIENCY * factor * seeds.noise(0.003, *noise)


def rows(options: Options, own: Port, peer: Port, *noise: object) -> str:
    """Column header, a row for each size, closing rule."""
    sizes = [1 << power for power in range(1, 24)] if options.all_sizes else [options.size]
    if options.tool.endswith("lat"):
        return _latency(options, *noise)
    unit = "Gb/sec" if options.gbits else "MiB/sec"
    text = f" #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]\n"
    for size in sizes:
        average = gbps(options, own, peer, size, size, *noise)
        packets = average * 1e9 / 8 / size / 1e6
        iterations = round(packets * 1e6 * options.duration) if options.duration else options.iterations
        shown = average if options.gbits else average * 1e9 / 8 / 1048576
        peak = 0.0 if options.duration else shown * 1.001
        text += f" {size:<10d} {iterations:<15d}{peak:<18.2f} {shown:<18.2f}\t   {packets:.6f}\n"
    return text + _RULE


def _latency(options: Options, *noise: object) -> str:
    typical = 2.9 * seeds.noise(0.02, *noise)
    text = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    text += "99% percentile[usec]   99.9% percentile[usec] \n"
    text += (
        f" {options.size:<7d} {options.iterations:<14d} {typical * 0.97:<14.2f} {typical * 1.9:<12.2f} "
        f"{typical:<18.2f} {typical * 1.01:<14.2f} {0.08:<15.2f} {typical * 1.12:<22.2f} {typical * 1.5:<22.2f}\n"
    )
    return text + _RULE
