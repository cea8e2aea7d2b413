#!/bin/sh
# Plays five worker pods whose schedules start the same reports at the same
# time.
#
#   five-workers.sh REDLOCKRUN OUTDIR CLIENT...
#
# REDLOCKRUN is the program to use; where the locks are kept is up to the
# environment (REDIS_URL). For each worker and client, "CLIENT EXITCODE" is
# appended to the file results, and what the worker said stands in the folder
# messages. Workers start together: each waits for a file that comes last.
set -u
redlockrun=$1 out=$2
shift 2
here=$(dirname "$0")
mkdir -p messages
rm -f results go

for worker in 1 2 3 4 5; do
	for client; do
		(
			until [ -e go ]; do sleep 0.01; done
			"$redlockrun" --key "$client" -- "$here/generate-report.sh" "$client" "$out" \
				2>"messages/$client.$worker"
			echo "$client $?" >>results
		) &
	done
done
touch go
wait
