"""The text of a head's loop: POSIX sh, whole but for @WORDS@ that `relay_script` fills in; its promises stand there.

Facts: ssh(1), ssh_config(5); -E keeps ssh's own words apart from what the remote side prints on stderr.
"""

from __future__ import annotations

NO_SSH = "no-ssh"

BOOT = r"""
n=$1
exec 2>/dev/null
LC_ALL=C
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
export LC_ALL PATH
umask 077
printf '%s begin\n' "$n"
cannot() { printf '%s cannot %s\n' "$n" "$1"; exit 0; }
timeout -k 1 5 true
case $? in 0 | 124 | 137 | 143) ;; *) cannot no-timeout ;; esac
command -v ssh >/dev/null || cannot @NO_SSH@
d=
for t in /dev/shm "${TMPDIR:-/tmp}" /tmp "$HOME"; do
  d=$(mktemp -d "$t/ndctl-relay.XXXXXX") && break
done
[ -n "$d" ] && [ -d "$d" ] || cannot no-directory
k= over= mux= ticker= listener= running= marked=
# The number of a process that has ended may be another's by now, so only a child of this shell is ended.
end() {
  for c in "$@"; do
    up=
    read -r own name state up rest <"/proc/$c/stat" && [ "$up" = "$$" ] && kill "$c"
  done
}
leave() {
  for r in $running; do eval "end \$pid_$r"; done
  end $mux $ticker $listener
  [ -n "$over" ] || [ -z "$k" ] || rm -rf "$k"
  # An ssh that is just being ended may still open its log, and a directory that is not empty stays.
  i=0; while rm -rf "$d"; [ -e "$d" ] && [ $i -lt 5 ]; do sleep 1; i=$((i + 1)); done
}
trap leave EXIT
trap 'exit 129' HUP INT TERM PIPE
exec 4<&0
dd ibs=1 obs=65536 count="$2" of="$d/relay" && exec </dev/null && . "$d/relay"
""".replace("@NO_SSH@", NO_SSH)

LOOP = r"""
mkfifo "$d/events" || cannot no-directory
exec 3<>"$d/events" 5<"$d/peers"
(while read -r word; do printf '%s\n' "$word" >&3; done <&4; echo gone >&3) >/dev/null 5<&- &
listener=$!
# It ends by itself, too, when the shell was killed and could not end it.
(while sleep @TICK@ && read -r own name state up rest </proc/self/stat && [ "$up" = "$$" ]; do echo tick >&3; done) \
  >/dev/null 4<&- 5<&- &
ticker=$!
queue=1 beat=0
clock() { now=0; read -r now rest </proc/uptime; now=${now%.*}; }
push() {
  size=$(wc -c <"$d/$1.o")
  eval "at=\${at_$1:-0}"
  more=$((size - at))
  [ "$more" -gt 0 ] || return 1
  [ "$more" -le @BLOCK@ ] || more=@BLOCK@
  printf '%s block %s %s\n' "$n" "$1" "$more"
  tail -c "+$((at + 1))" "$d/$1.o" | head -c "$more"
  eval "at_$1=$((at + more))"
}
finish() {
  while push "$1"; do :; done
  log=$(wc -c <"$d/$1.log")
  [ "$log" -le @LOG@ ] || log=@LOG@
  said=$(wc -c <"$d/$1.e")
  [ "$said" -le @LOG@ ] || said=@LOG@
  printf '%s end %s %s %s %s\n' "$n" "$1" "$2" $((log)) $((said))
  tail -c "$log" "$d/$1.log"
  tail -c "$said" "$d/$1.e"
  rm -f "$d/$1.o" "$d/$1.e" "$d/$1.log"
  left=
  for r in $running; do [ "$r" = "$1" ] || left="$left $r"; done
  running=$left
}
start() {
  read -r i host port user m s t <&5 || { queue=; return; }
  printf '%s start %s\n' "$n" "$i"
  : >"$d/$i.o"; : >"$d/$i.e"; : >"$d/$i.log"
  (
    p= ended=
    trap 'ended=1; [ -z "$p" ] || kill "$p"' TERM
    if [ "$host" = - ]; then
      unset SSH_AUTH_SOCK SSH_AGENT_PID
      sh "$d/$s" "$m" </dev/null >>"$d/$i.o" 2>>"$d/$i.e" 3>&- &
    else
      ulimit -f @FILE_BLOCKS@
      timeout -k 2 "$t" ssh @SSH_OPTIONS@ -E "$d/$i.log" -p "$port" -l "$user" -- "$host" "exec sh -s $m$marked" \
        <"$d/$s" >>"$d/$i.o" 2>>"$d/$i.e" 3>&- &
    fi
    p=$!
    [ -z "$ended" ] || kill "$p"
    wait "$p"; c=$?
    [ -z "$ended" ] || { wait "$p"; c=$?; }
    p=
    printf 'end %s %s\n' "$i" "$c" >&3
  ) </dev/null >/dev/null 4<&- 5<&- &
  eval "pid_$i=$! began_$i=$now"
  running="$running $i"
}
fill() {
  clock; fresh=0
  for r in $running; do eval "b=\$began_$r"; [ $((now - b)) -ge @SLOW@ ] || fresh=$((fresh + 1)); done
  while [ -n "$queue" ] && [ "$fresh" -lt @SLOTS@ ]; do start; fresh=$((fresh + 1)); done
}
take() {
  case $1 in
  start) fill ;;
  end) finish "$2" "$3"; fill ;;
  tick)
    for r in $running; do push "$r"; done
    beat=$((beat + 1))
    [ $((beat % @BEAT@)) -ne 0 ] || printf '%s tick\n' "$n"
    fill
    ;;
  kill) case " $running " in *" $2 "*) eval "end \$pid_$2" ;; esac ;;
  halt) queue= ;;
  gone) exit 1 ;;
  esac
}
# What one event has to say leaves in one piece: every piece is a packet, and costs the client as much as a long one.
tell() { take "$@" >"$d/out"; [ ! -s "$d/out" ] || cat "$d/out"; }
tell start
while [ -n "$running$queue" ]; do
  read -r what who code <&3 || exit 1
  tell "$what" "$who" "$code"
done
over=1
@LAST@
leave
trap - EXIT
printf '%s done\n' "$n"
exit 0
"""

# Only the slow key exchange is taken out: sntrup761 costs OpenSSH 9.2's client 90 ms a login.
SSH_OPTIONS = (
    "-F none -T -x -a -o BatchMode=yes -o StrictHostKeyChecking=yes -o UpdateHostKeys=no -o CheckHostIP=no "
    "-o GlobalKnownHostsFile=/dev/null -o VerifyHostKeyDNS=no -o CanonicalizeHostname=no -o ConnectionAttempts=1 "
    "-o KexAlgorithms=-sntrup* -o PreferredAuthentications=publickey -o ControlMaster=no -o ControlPath=none "
    "-o ClearAllForwardings=yes -o PermitLocalCommand=no -o AddKeysToAgent=no -o LogLevel=VERBOSE"
)
