#!/bin/sh
# Repeats the five workers N times, half of them on a real server and half on
# the embedded one, and fails at the first client that did not get exactly one
# report and one mail.
#
#   repeat.sh N
set -eu
times=$1
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
server=
end() {
	[ -z "$server" ] || kill "$server"
	XDG_RUNTIME_DIR=$work "$work/bin/redlockrun" embedded stop --force 2>/dev/null || :
	rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
(cd "$here/../.." && CGO_ENABLED=0 go build -o "$work/bin/redlockrun" .)
export XDG_RUNTIME_DIR="$work" REPORT_DELAY=1
cd "$work"
redis-server --port 0 --unixsocket "$work/redis.sock" --save '' --appendonly no --daemonize no >redis.log &
server=$!
tries=0
until redis-cli -s "$work/redis.sock" ping >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 500 ] || { cat redis.log; exit 1; }
	sleep 0.02
done

round=0
while [ "$round" -lt "$times" ]; do
	round=$((round + 1))
	if [ $((round % 2)) = 0 ]; then REDIS_URL=embedded; else REDIS_URL=unix://$work/redis.sock; fi
	export REDIS_URL
	rm -rf out messages
	"$here/five-workers.sh" bin/redlockrun out client_123 client_456 client_789
	for client in client_123 client_456 client_789; do
		mails=$(grep -c "to=$client@" out/outbox || :)
		made=$(grep -c "^$client 0\$" results || :)
		busy=$(grep -c "^$client 75\$" results || :)
		if [ "$mails $made $busy" != "1 1 4" ] || ! [ -s "out/report-$client.pdf" ]; then
			echo "round $round on $REDIS_URL, $client: $mails mails, $made made it, $busy found it busy" >&2
			cat results messages/* >&2
			exit 1
		fi
	done
done
echo "$times rounds: one report and one mail for each of three clients, every time"
