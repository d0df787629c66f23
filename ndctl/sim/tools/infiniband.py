"""ibstat, ibstatus, ibv_devinfo, ibdev2netdev: the RDMA devices of a node."""

from __future__ import annotations

from ndctl.sim.tools.answer import Answer
from ndctl.sim.world.parts import Port
from ndctl.sim.world.view import NodeView

# Numbers sysfs prints before a state's name.
STATE = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4}
PHYS_STATE = {"Polling": 2, "Disabled": 3, "LinkUp": 5}


def _chosen(view: NodeView, arguments: list[str]) -> list[Port]:
    names = {argument.partition(":")[0] for argument in arguments if not argument.startswith("-")}
    return [port for port in view.ports if not names or port.device in names]


def _hex(guid: str) -> str:
    return "0x" + guid.replace(":", "")


def ibstat(view: NodeView, arguments: list[str]) -> Answer:
    if "-l" in arguments:
        return Answer("".join(f"{port.device}\n" for port in view.ports))
    text = ""
    for port in _chosen(view, arguments):
        text += f"CA '{port.device}'\n\tCA type: {port.hca_type}\n\tNumber of ports: 1\n"
        text += f"\tFirmware version: {port.firmware}\n\tHardware version: 0\n"
        text += f"\tNode GUID: {_hex(port.node_guid)}\n\tSystem image GUID: {_hex(port.system_guid)}\n\tPort 1:\n"
        text += f"\t\tState: {port.state.capitalize()}\n\t\tPhysical state: {port.phys_state}\n"
        text += f"\t\tRate: {port.rate_gbps}\n\t\tBase lid: {port.lid}\n\t\tLMC: 0\n\t\tSM lid: {port.sm_lid}\n"
        mask = "0xa751ec48" if port.infiniband else "0x00010000"
        text += f"\t\tCapability mask: {mask}\n\t\tPort GUID: {_hex(port.node_guid)}\n"
        text += f"\t\tLink layer: {port.link_layer}\n"
    return (
        Answer(text) if text else Answer(err="ibpanic: [0] main: stat of IB device failed: No such device\n", code=255)
    )


def ibstatus(view: NodeView, arguments: list[str]) -> Answer:
    text = ""
    for port in _chosen(view, arguments):
        text += f"Infiniband device '{port.device}' port 1 status:\n\tdefault gid:\t {port.gid}\n"
        text += f"\tbase lid:\t 0x{port.lid:x}\n\tsm lid:\t\t 0x{port.sm_lid:x}\n"
        text += f"\tstate:\t\t {STATE[port.state]}: {port.state}\n"
        text += f"\tphys state:\t {PHYS_STATE[port.phys_state]}: {port.phys_state}\n"
        text += f"\trate:\t\t {view.shape.rate_text(port.rate_gbps, port.lanes)}\n\tlink_layer:\t {port.link_layer}\n\n"
    return Answer(text)


def _tabbed(key: str, width: int) -> str:
    """The key, a colon and as many tabs as reach the column."""
    label = f"{key}:"
    return label + "\t" * -(-(width - len(label)) // 8)


def ibv_devinfo(view: NodeView, arguments: list[str]) -> Answer:
    ports = view.ports
    if "-d" in arguments:
        name = arguments[arguments.index("-d") + 1 :][:1]
        ports = [port for port in ports if [port.device] == name]
        if not ports:
            return Answer(err="No IB devices found\n", code=255)
    text = ""
    for port in ports:
        lines = (
            ("transport", "InfiniBand (0)"),
            ("fw_ver", port.firmware),
            ("node_guid", port.node_guid),
            ("sys_image_guid", port.system_guid),
            ("vendor_id", "0x02c9"),
            ("vendor_part_id", port.hca_type[2:]),
            ("hw_ver", "0x0"),
            ("board_id", port.board_id),
            ("phys_port_cnt", "1"),
        )
        text += f"hca_id:\t{port.device}\n" + "".join(f"\t{_tabbed(key, 32)}{value}\n" for key, value in lines)
        text += "\t\tport:\t1\n"
        mtu = "4096 (5)" if port.infiniband else "1024 (3)"
        details = (
            ("state", f"PORT_{port.state} ({STATE[port.state]})"),
            ("max_mtu", "4096 (5)"),
            ("active_mtu", mtu),
            ("sm_lid", str(port.sm_lid)),
            ("port_lid", str(port.lid)),
            ("port_lmc", "0x00"),
            ("link_layer", port.link_layer),
        )
        text += "".join(f"\t\t\t{_tabbed(key, 24)}{value}\n" for key, value in details) + "\n"
    return Answer(text)


def ibdev2netdev(view: NodeView, arguments: list[str]) -> Answer:
    """IPoIB is not set up on these VFs, so the net devices of active ports are Down."""
    lines = (f"{p.device} port 1 ==> {p.netdev} ({'Down' if p.infiniband else 'Up'})\n" for p in view.ports)
    return Answer("".join(lines))
