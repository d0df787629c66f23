"""What nodes are asked about the machine around the GPUs, as data. Files are read by one grep: cheap, and what is not
there costs nothing."""

from __future__ import annotations

from ndctl.model.answers import Command

# Settings a collective's speed or a job's survival hangs on, and none that the kernel derives from the memory of the
# one node (fs.file-max, vm.min_free_kbytes).
_SYSCTLS = (
    *(
        f"proc/sys/kernel/{name}"
        for name in (
            "numa_balancing",
            "yama/ptrace_scope",
            "perf_event_paranoid",
            "hung_task_timeout_secs",
            "panic",
            "panic_on_oops",
            "randomize_va_space",
            "sched_rt_runtime_us",
            "pid_max",
            "shmmax",
            "watchdog",
            "nmi_watchdog",
        )
    ),
    *(
        f"proc/sys/vm/{name}"
        for name in (
            "overcommit_memory",
            "swappiness",
            "zone_reclaim_mode",
            "max_map_count",
            "nr_hugepages",
            "compaction_proactiveness",
        )
    ),
    *(
        f"proc/sys/net/{name}"
        for name in (
            "core/rmem_max",
            "core/wmem_max",
            "core/somaxconn",
            "core/netdev_max_backlog",
            "ipv4/tcp_rmem",
            "ipv4/tcp_wmem",
            "ipv4/ip_local_port_range",
            "ipv4/conf/all/rp_filter",
            "ipv4/conf/all/arp_ignore",
            "ipv4/conf/all/arp_announce",
            "ipv4/neigh/default/gc_thresh3",
        )
    ),
    "proc/sys/fs/nr_open",
    "proc/sys/fs/aio-max-nr",
)
SETTING_FILES = (
    *_SYSCTLS,
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/ksm/run",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/smt/control",
)
NUMA_ONLINE = "sys/devices/system/node/online"
NUMA_POSSIBLE = "sys/devices/system/node/possible"
CPUS_ONLINE = "sys/devices/system/cpu/online"
CPUS_PRESENT = "sys/devices/system/cpu/present"
COMMAND_LINE = "proc/cmdline"
NVIDIA_PARAMETERS = "proc/driver/nvidia/params"
COMPONENTS = "opt/azurehpc/component_versions.txt"
MOUNTS = "proc/mounts"
_FILES = (
    NUMA_ONLINE,
    NUMA_POSSIBLE,
    CPUS_ONLINE,
    CPUS_PRESENT,
    "sys/class/nvme/nvme*/model",
    "sys/class/nvme/nvme*/serial",
    "sys/class/nvme/nvme*/state",
    "sys/class/block/nvme*n*/size",
    COMMAND_LINE,
    *SETTING_FILES,
    NVIDIA_PARAMETERS,
    COMPONENTS,
)
# Of the mounts only those of disks: containers bring thousands of others.
_DISK_MOUNTS = "^/dev/|^[^ ]+ / |^[^ ]+ [^ ]+ (zfs|btrfs) "
HOST_FILES = Command(
    "host-files",
    # The last word proves that nothing broke off: what is not there can then be told from what was not reached.
    f"cd \"$NDCTL_SYSROOT/\" || exit 3; grep -aH '' {' '.join(_FILES)}; grep -aHE '{_DISK_MOUNTS}' {MOUNTS}; echo end",
    timeout_s=15,
    cap_bytes=1_000_000,
    order=-15,
)
HOST_DISK = Command(
    # Only local file systems: a server that is gone would hang df for good.
    "host-disk",
    "df -lPTk; df -lPi",
    timeout_s=15,
    cap_bytes=400_000,
)
HOST_CLOCK = Command(
    "host-clock",
    "chronyc -n tracking || timedatectl show || timedatectl",
    timeout_s=15,
    cap_bytes=8_000,
)
HOST_UNITS = Command(
    # An empty list says nothing by itself; the state of the whole does.
    "host-units",
    "systemctl list-units --state=failed --state=auto-restart --plain --no-legend --no-pager --full; "
    'printf "state=%s\\n" "$(systemctl is-system-running 2>/dev/null)"',
    timeout_s=15,
    cap_bytes=100_000,
)
# Between the two looks at tasks in state D; a healthy node has none and is not looked at twice.
SECOND_LOOK_S = 5
_TASKS = (
    'cd "$NDCTL_SYSROOT/proc" || exit 3; '
    'set -- [0-9]*; [ -d "$1" ] || exit 3; printf "tasks %s\\n" "$#"; [ -r 1/stat ] && echo "init seen"; '
    'look() { read -r up rest <uptime; echo "at $up"; '
    # Through xargs, since a hundred thousand names do not fit one command line.
    "printf '%s\\n' [0-9]*/stat | xargs grep -ahE '^[0-9]+ \\(.*\\) [DZ] ' 2>/dev/null | head -n 2000; }; "
    # stdout of the first look is kept in a variable, since whether there is a second hangs on it.
    "first=$(look); printf '%s\\n' \"$first\"; "
    "stuck=$(printf '%s\\n' \"$first\" | grep -E '\\) D ' | cut -d' ' -f1 | head -n 100); "
    '[ -n "$stuck" ] || exit 0; '
    'more() { for p in $stuck; do grep -aH ctxt_switches "$p/status"; grep -aH \'\' "$p/wchan"; done 2>/dev/null; }; '
    f"more; sleep {SECOND_LOOK_S}; look; more; true"
)
HOST_TASKS = Command("host-tasks", _TASKS, timeout_s=SECOND_LOOK_S + 15, cap_bytes=400_000)
_SMART = (
    "command -v nvme >/dev/null || exit 127; "
    'for c in "$NDCTL_SYSROOT"/sys/class/nvme/nvme*; do [ -e "$c/model" ] || continue; n=${c##*/}; '
    'printf "== %s %s\\n" "$n" "$(cat "$c/model")"; timeout -k 1 5 nvme smart-log "/dev/$n" -o json 2>&1; done; '
    'echo "== end"'
)
HOST_SMART = Command("host-smart", _SMART, timeout_s=30, cap_bytes=200_000, root=True)
