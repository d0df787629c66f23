"""What a node is asked before an active test: who uses it. One script, one answer for each who may know.

Names on which Slurm and Kubernetes know a node may differ from its own: both are asked by host name first, then by
what they call the host (`scontrol show aliases`; the addresses of Kubernetes' nodes).
"""

from __future__ import annotations

from ndctl.model.answers import Command

NOBODY_TO_ASK = 69  # EX_UNAVAILABLE: a slurmd runs, and scontrol is missing or finds no cluster

# A job may hold GPUs without a process on them, so a slurmd that nobody can ask about is not taken for an idle node.
# -o: one node, one line. squeue makes the controller list all its jobs: asked only where something is allocated.
_SLURM = r"""
command -v scontrol >/dev/null 2>&1 || PATH=$PATH:/opt/slurm/bin:/usr/local/slurm/bin:/cm/shared/apps/slurm/current/bin
lost() {
    grep -qsx slurmd "$NDCTL_SYSROOT"/proc/[0-9]*/comm || exit "$1"
    echo 'slurmd runs here, and scontrol does not know its cluster' >&2
    exit NOBODY
}
command -v scontrol >/dev/null 2>&1 || lost 127
n=$(hostname -s 2>/dev/null || uname -n); n=${n%%.*}
o=$(scontrol show node "$n" -o 2>&1); c=$?
case $o in
*"not found"*)
    a=$(scontrol show aliases "$n" 2>/dev/null | tr -s ' \n' ','); a=${a%,}
    [ -z "$a" ] || { n=$a; o=$(scontrol show node "$n" -o 2>&1); c=$?; } ;;
esac
printf '%s\n' "$o"
case $o in
*"configuration source"* | *"cannot stat file"*) lost "$c" ;;
*" CPUAlloc="[1-9]* | *COMPLETING*)
    squeue -h -w "$n" -o 'JobId=%i UserId=%u State=%T JobName=%j' 2>/dev/null | head -n 20 ;;
esac
exit "$c"
""".replace("NOBODY", str(NOBODY_TO_ASK))

_NODE_TEMPLATE = (
    "{{if .spec.unschedulable}}cordoned{{else}}open{{end}}"
    r'{{range .spec.taints}}{{"\n"}}taint {{.effect}} {{.key}}{{end}}{{"\n"}}'
)
_CONTAINER = "{{range $k, $v := .resources.limits}} {{$k}}={{$v}}{{end}}"
_PODS_TEMPLATE = (
    "{{range .items}}pod {{.metadata.namespace}}/{{.metadata.name}} {{.status.phase}}"
    f"{{{{range .spec.containers}}}}{_CONTAINER}{{{{end}}}}{{{{range .spec.initContainers}}}}{_CONTAINER}{{{{end}}}}"
    r'{{range .spec.resourceClaims}} claim={{.name}}{{end}}{{"\n"}}{{end}}'
)
_ADDRESSES_TEMPLATE = (
    "{{range .items}}{{$n := .metadata.name}}{{range .status.addresses}}"
    r'{{$n}} {{.address}}{{"\n"}}{{end}}{{end}}'
)
_KUBERNETES = rf"""
command -v kubectl >/dev/null 2>&1 || exit 127
[ -n "$KUBECONFIG" ] || [ -r "$HOME/.kube/config" ] || {{ echo 'kubectl is not configured' >&2; exit 78; }}
k() {{ kubectl --request-timeout=5s "$@"; }}
h=$(hostname 2>/dev/null || uname -n)
e=$(k get node "$h" -o name 2>&1) && n=${{e##*/}} || {{
    case $e in *NotFound*) ;; *) printf '%s\n' "$e" | tail -n 1 >&2; exit 1 ;; esac
    n=$(k get nodes -o go-template='{_ADDRESSES_TEMPLATE}' | while read -r name at; do
        for own in "$h" "${{h%%.*}}" $(hostname -I 2>/dev/null); do
            [ "$at" = "$own" ] && {{ echo "$name"; break 2; }}
        done
    done)
}}
[ -n "$n" ] || {{ echo "Kubernetes has no node $h" >&2; exit 1; }}
t=$(k get node "$n" -o go-template='{_NODE_TEMPLATE}') || exit 1
printf 'node %s %s\n' "$n" "$t"
k get pods --all-namespaces --field-selector "spec.nodeName=$n" -o go-template='{_PODS_TEMPLATE}' && echo end
"""

SLURM = Command("occupancy-slurm", _SLURM, timeout_s=20, cap_bytes=100_000)
KUBERNETES = Command("occupancy-kubernetes", _KUBERNETES, timeout_s=20, cap_bytes=400_000)
COMPUTE_PROCESSES = Command(
    "compute-processes",
    "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader",
    timeout_s=20,
    cap_bytes=100_000,
)
LOAD = Command("occupancy-load", 'cat "$NDCTL_SYSROOT"/proc/loadavg && nproc', timeout_s=15, cap_bytes=1_000)
