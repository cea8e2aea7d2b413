#!/bin/sh
# The lock of a shell script, with the two commands of redis-cli that it takes:
#
#   lock.sh URL KEY TTL PAUSE COMMAND [ARG...]
#
# TTL is in milliseconds. Nobody renews the lock. When it is busy, the script
# tries again every PAUSE seconds; with 0 it gives up.
url=$1 key=$2 ttl=$3 pause=$4
shift 4
read -r token </proc/sys/kernel/random/uuid
until [ "$(redis-cli -u "$url" SET "$key" "$token" NX PX "$ttl")" = OK ]; do
	[ "$pause" != 0 ] || exit 75
	sleep "$pause"
done
"$@"
status=$?
redis-cli -u "$url" EVAL \
	'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0' \
	1 "$key" "$token" >/dev/null
exit "$status"
