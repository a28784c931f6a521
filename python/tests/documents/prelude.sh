# What the script of a page begins with (script.py). Results go to fd 3, one line each:
#   block NAME | command TEXT | failed TEXT | end NAME
exec 3>&"$DOCUMENTS_REPORTS"
set -E -o pipefail
trap 'status=$?; fail "exit status $status: $(head -n 1 <<<"$BASH_COMMAND")"' ERR

fail() { echo "failed $*" >&3; }

# begin NAME: the next block.
begin() {
    started=()
    log_at=$(stat -c %s "$DOCUMENTS_LOG")
    echo "block $1" >&3
}

# say TEXT: the command that comes next.
say() { echo "command ${1//$'\n'/ }" >&3; }

# started PID TEXT: a command that runs in the background until the end of its block.
declare -A text_of
started() {
    started+=("$1")
    text_of[$1]=$2
}

# address N: the URL that the Nth node of this block has printed, which may take 20 s.
address() {
    local found try
    for try in $(seq 200); do
        found=$(tail -c "+$((log_at + 1))" "$DOCUMENTS_LOG" | { grep -aoE "layercasts?://[^ '\"]*[^ '\".,;]" || true; } | awk '!seen[$0]++')
        [ "$(wc -w <<<"$found")" -lt "$1" ] || break
        sleep 0.1
    done
    [ -n "$found" ] || { fail "no node has printed a URL"; return 0; }
    sed -n "$1p;\$p" <<<"$found" | head -n 1
}

# finish LINGER: waits for players, then Ctrl-C for all that still runs; it must end within 10 s, with 0 or 130 (ffmpeg: 255).
finish() {
    local pid status try
    [ "${#started[@]}" = 0 ] || sleep "$1"
    for pid in "${started[@]}"; do
        case ${text_of[$pid]} in
            *ffplay*) wait "$pid" || fail "exit status $? in the background: ${text_of[$pid]}" ;;
        esac
    done
    for pid in "${started[@]}"; do
        # What ended by itself did so with 0.
        kill -INT -- "-$pid" 2>/dev/null || true
    done
    for pid in "${started[@]}"; do
        for try in $(seq 100); do
            kill -0 -- "-$pid" 2>/dev/null || break
            sleep 0.1
        done
        if kill -0 -- "-$pid" 2>/dev/null; then
            fail "Ctrl-C does not end: ${text_of[$pid]}"
            kill -CONT -- "-$pid"
            kill -KILL -- "-$pid"
        fi
        status=0
        wait "$pid" 2>/dev/null || status=$?
        case $status in
            0 | 130 | 255 | 137) ;;
            *) fail "exit status $status in the background: ${text_of[$pid]}" ;;
        esac
    done
    started=()
}

# pictures FILE [LEAST]: decodes without an error, and has at least LEAST pictures.
pictures() {
    local count complaints
    complaints=$(mktemp)
    count=$(ffmpeg -nostdin -v error -i "$1" -map 0:v:0 -f null -progress pipe:1 - 2>"$complaints" | sed -n 's/^frame=//p' | tail -n 1)
    [ "${count:-0}" -ge "${2:-25}" ] || fail "$1 decodes to ${count:-0} pictures, fewer than ${2:-25}: $(head -c 300 "$complaints")"
    rm -f "$complaints"
}

# json FILE: holds JSON, one value or one a line.
json() { jq -e . "$1" >/dev/null || fail "$1 is not JSON"; }

# capture FILE: tshark reads packets from it.
capture() { [ -n "$(tshark -r "$1" -c 1)" ] || fail "tshark reads no packet from $1"; }

# trace FILE: a JSON text sequence with more than its header.
trace() { [ "$(tr -d '\036' <"$1" | jq -c . | wc -l)" -gt 1 ] || fail "$1 is no trace"; }

# The network of the page: documentation addresses and groups are here, names resolve to it, and nothing else is reachable.
if [ -n "${DOCUMENTS_NETWORK:-}" ]; then
    ip link set lo up multicast on
    for address in 192.0.2.1 192.0.2.2 192.0.2.7; do ip address add "$address/32" dev lo; done
    ip route add 224.0.0.0/4 dev lo
    mount --make-rprivate /
    mount -t tmpfs none /run
    mkdir -p /run/user/1000 /run/netns /run/lock
    printf '%s\n' '127.0.0.1 localhost' '192.0.2.1 media.example.net' '192.0.2.2 ann.example.net' '192.0.2.7 bob.example.net' \
        '10.9.0.1 a' '10.9.0.2 b' '10.9.0.3 c' '10.9.0.4 d' \
        >/run/hosts
    mount --bind /run/hosts /etc/hosts
fi

# host NAME: a host for the prompt `NAME$`, NAME from a to d. Each has a namespace; they share the network 10.9.0.0/24.
host() {
    [ ! -e "/run/netns/$1" ] || return 0
    local number
    number=$(awk -v name="$1" '$2 == name { sub(/.*\./, "", $1); print $1 }' /etc/hosts)
    ip link show hosts0 >/dev/null 2>&1 || { ip link add hosts0 type bridge; ip link set hosts0 up; }
    ip netns add "$1"
    ip link add "to-$1" type veth peer name eth0 netns "$1"
    ip link set "to-$1" master hosts0 up
    ip -n "$1" link set lo up
    ip -n "$1" link set eth0 up
    ip -n "$1" address add "10.9.0.$number/24" dev eth0
}

# on HOST COMMAND: what the prompt `HOST$` says.
on() { ip netns exec "$1" bash -c "$2"; }
