"""What nodes are asked, as data. Checks share commands: one id runs once per node, whoever wants it.

`$NDCTL_SYSROOT` is empty on a real node; where a loopback node stands in it leads to that node's own tree.
Globs stay in the shell so that a missing directory gives an empty answer, not an error.
"""

from __future__ import annotations

from ndctl.model.answers import Command

_IB = '"$NDCTL_SYSROOT"/sys/class/infiniband'
_COUNTERS = f"grep -H . {_IB}/*/ports/*/counters/* {_IB}/*/ports/*/hw_counters/* /dev/null 2>/dev/null; true"
_PCI_SCAN = (
    'for d in "$NDCTL_SYSROOT"/sys/bus/pci/devices/*; do '
    'v=$(cat "$d/vendor" 2>/dev/null); [ "$v" = 0x10de ] || continue; '
    'printf "%s %s %s\\n" "${d##*/}" "$(cat "$d/class" 2>/dev/null)" "$(cat "$d/device" 2>/dev/null)"; done'
)
_IDENTITY = (
    'printf "boot_id=%s\\n" "$(cat "$NDCTL_SYSROOT"/proc/sys/kernel/random/boot_id 2>/dev/null)"; '
    'printf "uptime_s=%s\\n" "$(cut -d" " -f1 "$NDCTL_SYSROOT"/proc/uptime 2>/dev/null)"; '
    'printf "kernel=%s\\n" "$(uname -r)"; printf "machine=%s\\n" "$(uname -m)"; printf "cpus=%s\\n" "$(nproc)"; '
    'printf "addresses=%s\\n" "$(hostname -I 2>/dev/null)"; '
    'printf "memory_kb=%s\\n" "$(sed -n "s/^MemTotal: *\\([0-9]*\\) kB/\\1/p" "$NDCTL_SYSROOT"/proc/meminfo)"'
)
_PHYSICAL_HOST = (
    # Records of a 512-byte key and a 2048-byte value, NUL padded (Hyper-V key-value pairs).
    'tr "\\000" "\\n" < "$NDCTL_SYSROOT"/var/lib/hyperv/.kvp_pool_3 2>/dev/null | grep -v "^$" '
    '| grep -A1 "^PhysicalHostName\\(FullyQualified\\)\\?$" | tail -n 1'
)
# One line a part: what it is, its name, PCI address, NUMA node; of ports also interface and how often it lost its link.
_FABRIC_MAP = (
    'r="$NDCTL_SYSROOT"; one() { v=; read -r v 2>/dev/null < "$1"; printf %s "${v:-?}"; }; '
    f"for d in {_IB}/*; do "
    '[ -d "$d" ] || continue; p=; while IFS== read -r k v; do [ "$k" = PCI_SLOT_NAME ] && p=$v; done '
    '2>/dev/null < "$d/device/uevent"; n=; for n in "$d"/device/net/*; do break; done; '
    'printf "port %s %s %s %s %s\\n" "${d##*/}" "${p:-?}" "$(one "$d/device/numa_node")" "${n##*/}" '
    '"$(one "$n/carrier_changes")"; done; '
    'for d in "$r"/sys/bus/pci/devices/*; do v=; read -r v 2>/dev/null < "$d/vendor"; [ "$v" = 0x10de ] || continue; '
    'v=; read -r v 2>/dev/null < "$d/class"; case $v in 0x0302*) '
    'printf "gpu %s %s\\n" "${d##*/}" "$(one "$d/numa_node")";; esac; done; '
    'v=; read -r v 2>/dev/null < "$r/proc/driver/nvidia/version"; printf "driver %s\\n" "$v"; '
    'v=; while read -r k v; do case $k in nvidia_peermem|nv_peer_mem) printf "module %s\\n" "$k";; esac; done '
    '2>/dev/null < "$r/proc/modules"; [ -r "$r/proc/modules" ] && echo modules; '
    'for f in "$r"/opt/mellanox/sharp/lib/libsharp*.so* "$r"/opt/hpcx*/sharp/lib/libsharp*.so*; do '
    '[ -e "$f" ] && echo "sharp ${f#"$r"}" && break; done; '
    "echo end"
)

_SMI = "nvidia-smi"

IDENTITY = Command("identity", _IDENTITY, timeout_s=15, cap_bytes=4_000, order=-20)
PHYSICAL_HOST = Command("physical-host", _PHYSICAL_HOST, timeout_s=15, cap_bytes=4_000, order=-20)
IB_COUNTERS_BEFORE = Command("ib-counters-before", _COUNTERS, timeout_s=20, cap_bytes=400_000, order=-10)
NVLINK_ERRORS_BEFORE = Command("nvlink-errors-before", "nvidia-smi nvlink -e", timeout_s=20, order=-10, tool=_SMI)
NVIDIA_SMI_XML = Command("nvidia-smi-xml", "nvidia-smi -q -x", timeout_s=30, cap_bytes=2_000_000, tool=_SMI)
C2C_STATUS = Command("c2c-status", "nvidia-smi c2c --status", timeout_s=20, cap_bytes=100_000, tool=_SMI)
GPU_PCI = Command("gpu-pci", _PCI_SCAN, timeout_s=15, cap_bytes=20_000)
GPU_DEVICE_FILES = Command(
    "gpu-device-files",
    'ls -1 "$NDCTL_SYSROOT"/dev 2>/dev/null | grep -E "^nvidia[0-9]+$"; true',
    timeout_s=15,
    cap_bytes=4_000,
)
NVLINK_STATUS = Command("nvlink-status", "nvidia-smi nvlink --status", timeout_s=20, cap_bytes=200_000, tool=_SMI)
IMEX_DOMAIN = Command("imex-domain", "nvidia-imex-ctl -N -j", timeout_s=20, cap_bytes=1_000_000, root=True)
IMEX_NODE_LIST = Command(
    "imex-node-list",
    'cat "$NDCTL_SYSROOT"/etc/nvidia-imex/nodes_config.cfg',
    timeout_s=15,
    cap_bytes=20_000,
)
FABRIC_MANAGER = Command("fabric-manager", "systemctl is-active nvidia-fabricmanager", timeout_s=15, cap_bytes=1_000)
IB_SYSFS = Command(
    "ib-sysfs",
    f"grep -H . {_IB}/*/ports/*/state {_IB}/*/ports/*/phys_state {_IB}/*/ports/*/rate {_IB}/*/ports/*/link_layer "
    f"{_IB}/*/ports/*/lid {_IB}/*/ports/*/sm_lid {_IB}/*/ports/*/gids/0 {_IB}/*/ports/*/pkeys/* {_IB}/*/fw_ver "
    f"{_IB}/*/board_id "
    "/dev/null 2>/dev/null; true",
    timeout_s=20,
    cap_bytes=400_000,
)
KERNEL_LOG = Command(
    "kernel-log",
    "journalctl -k -b -o short-iso-precise --no-pager -q || dmesg --time-format iso",
    timeout_s=20,
    cap_bytes=8_000_000,
    root=True,
)
IB_COUNTERS_AFTER = Command("ib-counters-after", _COUNTERS, timeout_s=20, cap_bytes=400_000, order=10)
GPU_SLOWDOWNS_AFTER = Command(
    # The first reading is in `nvidia-smi -q -x`.
    "gpu-slowdowns-after",
    "nvidia-smi --query-gpu=index,pci.bus_id,"
    + ",".join(
        f"clocks_event_reasons_counters.{reason}"
        for reason in ("sw_power_cap", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
    )
    + " --format=csv",
    timeout_s=20,
    cap_bytes=20_000,
    order=10,
    tool=_SMI,
)
NVLINK_ERRORS_AFTER = Command("nvlink-errors-after", "nvidia-smi nvlink -e", timeout_s=20, order=10, tool=_SMI)
FABRIC_MAP = Command("fabric-map", _FABRIC_MAP, timeout_s=15, cap_bytes=40_000)
