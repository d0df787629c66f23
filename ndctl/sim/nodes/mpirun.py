"""mpirun on a node: reaches every host of the hostfile by the machine's own ssh, as Open MPI's rsh launcher does,
then asks the simulator what the program prints. Only the standard library: it runs outside ndctl's environment.
"""

import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import client

_AT_ONCE = 4
_RULE = "-" * 74
# Options by how many values they take; those not named take none.
_ONE = {
    "-np",
    "-n",
    "-c",
    "--n",
    "--np",
    "--map-by",
    "-map-by",
    "--bind-to",
    "-bind-to",
    "-hostfile",
    "--hostfile",
    "-machinefile",
    "--machinefile",
    "-x",
    "-H",
    "--host",
    "-host",
    "-N",
    "--npernode",
    "-npernode",
    "--prefix",
    "-wdir",
    "--wdir",
    "-wd",
    "--rank-by",
    "-rank-by",
    "--output-filename",
    "--timeout",
    "-ppr",
    "--path",
}
_TWO = {"-mca", "--mca", "-gmca", "--gmca"}


def parse(arguments):
    """(options by name, MCA parameters, exported variables, program and its arguments)."""
    options, mca, exported = {}, {}, []
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _TWO:
            name = rest.pop(0)
            mca[name] = rest.pop(0)
        elif option == "-x":
            exported.append(rest.pop(0))
        elif option in _ONE:
            options[option.lstrip("-")] = rest.pop(0)
        else:
            options[option.lstrip("-")] = ""
    return options, mca, exported, rest


def first(options, *names):
    return next((options[name] for name in names if name in options), None)


def hosts_of(options):
    """[(host, slots or 0)] in the order given."""
    path = first(options, "hostfile", "machinefile")
    hosts = []
    if path is not None:
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.partition("#")[0].split()
                if words:
                    slots = [word.partition("=")[2] for word in words[1:] if word.startswith("slots=")]
                    hosts.append((words[0], int(slots[0]) if slots else 0))
    for entry in (first(options, "H", "host") or "").split(","):
        if entry:
            name, _, slots = entry.partition(":")
            hosts.append((name, int(slots) if slots else 1))
    return hosts


def launch_daemon(agent, host):
    """(return code, stderr) of one ssh."""
    try:
        done = subprocess.run(
            [*agent, host, "true"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
        )
    except subprocess.TimeoutExpired:
        return 255, f"ssh: connect to host {host}: Connection timed out\n".encode()
    except OSError as error:
        return 127, f"{agent[0]}: {error.strerror}\n".encode()
    return done.returncode, done.stderr


def reach(agent, hosts, own):
    """Start a daemon on each other host; the exit status, 0 when all were reached."""
    others = [host for host in hosts if host not in own]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        results = list(pool.map(lambda host: launch_daemon(agent, host), others))
    failed = False
    for code, error in results:
        sys.stderr.buffer.write(error)
        failed = failed or code != 0
    if failed:
        sys.stderr.write(
            f"{_RULE}\nORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n"
            "* not finding the required libraries and/or binaries on\n  one or more nodes.\n\n"
            "* lack of authority to execute on one or more specified nodes.\n\n"
            "*  unable to create a connection back to mpirun due to a\n"
            f"  lack of common network interfaces and/or no route found between\n  them.\n{_RULE}\n"
        )
    return 1 if failed else 0


def main():
    arguments = sys.argv[1:]
    if "--version" in arguments or "-V" in arguments:
        print("mpirun (Open MPI) 4.1.9a1\n\nReport bugs to http://www.open-mpi.org/community/help/")
        return 0
    options, mca, exported, program = parse(arguments)
    if not program:
        sys.stderr.write(f"{_RULE}\nNo executable was specified on the mpirun command line.\n\nAborting.\n{_RULE}\n")
        return 1
    address = os.environ.get("NDCTL_SIM_ADDRESS", "")
    try:
        hosts = hosts_of(options) or [(address, 0)]
    except OSError:
        name = first(options, "hostfile", "machinefile")
        sys.stderr.write(
            f"{_RULE}\nOpen RTE was unable to open the hostfile:\n    {name}\nCheck to make sure the path"
            f" and filename are correct.\n{_RULE}\n"
        )
        return 1
    agent = shlex.split(mca.get("plm_rsh_agent", "ssh")) + shlex.split(mca.get("plm_rsh_args", ""))
    if "-l" not in agent and not any(word.startswith("User=") for word in agent):
        # On a node the process belongs to the user who logged in; here it belongs to whoever runs the simulator.
        agent += ["-l", os.environ.get("USER", "root")]
    status = reach(agent, [host for host, _ in hosts], {address, "localhost", "127.0.0.1"})
    if status:
        return status
    per_node = first(options, "N", "npernode") or ""
    mapping = first(options, "map-by") or ""
    if mapping.startswith("ppr:"):
        per_node = mapping.split(":")[1]
    environment = [entry if "=" in entry else f"{entry}={os.environ.get(entry, '')}" for entry in exported]
    fields = [
        address,
        "",
        str(len(environment)),
        *environment,
        "mpirun",
        first(options, "np", "n", "c") or "",
        per_node,
        str(len(hosts)),
        *(f"{host} {slots}" for host, slots in hosts),
        *program,
    ]
    try:
        for kind, content in client.request(os.environ.get("NDCTL_SIM_SOCKET", ""), ["=" + f for f in fields]):
            if kind == "x":
                return content
            stream = sys.stdout if kind == "o" else sys.stderr
            stream.buffer.write(content)
            stream.flush()
    except OSError as error:
        sys.stderr.write(f"mpirun: the simulator does not answer: {error}\n")
    return 70


if __name__ == "__main__":
    sys.exit(main())
