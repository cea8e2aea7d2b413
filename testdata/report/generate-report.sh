#!/bin/sh
#
# generate-report.sh - the example job: a sales report as a PDF, "mailed" once.
#
#   generate-report.sh CLIENT [OUTDIR]
#
# Reads the client's sales lines from a CSV file, writes the report to
# OUTDIR/report-CLIENT.pdf and then "mails" it: one line is appended to
# OUTDIR/outbox. Running it twice sends two e-mails, and nothing in here
# prevents that. This is the job of the lock:
#
#   redlockrun --key client_123 -- ./generate-report.sh client_123 out
#
# Environment:
#   REPORT_DATA             the CSV file (default: clients.csv beside this script)
#   REPORT_DELAY            seconds to wait between making and mailing (default: 0)
#   REDLOCKRUN_LOCK_FENCE   set by redlockrun; noted in the outbox line
#
# Exit status:
#   0 made and mailed        66 the CSV file cannot be read
#   64 wrong usage           73 the report or the outbox cannot be written
#   65 unknown client or malformed CSV line
#   129, 130, 143 ended by SIGHUP, SIGINT, SIGTERM
#
# Needs a POSIX shell and awk, nothing else. The same data give the same PDF,
# byte for byte: every date in it comes from the data.

set -u
LC_ALL=C # one character is one byte: the PDF is addressed by byte offsets
export LC_ALL

usage='usage: generate-report.sh CLIENT [OUTDIR]'

die() { # die STATUS MESSAGE
	printf '%s\n' "generate-report.sh: $2" >&2
	exit "$1"
}

tmp=
sleeper=
cleanup() {
	[ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null || :
	[ -z "$tmp" ] || rm -f "$tmp"
}
trap cleanup EXIT

case ${1-} in
-h | --help)
	printf '%s\n' "$usage"
	exit 0
	;;
'' | -*)
	printf '%s\n' "$usage" >&2
	exit 64
	;;
esac
if [ $# -gt 2 ] || [ -z "${2-.}" ]; then
	printf '%s\n' "$usage" >&2
	exit 64
fi

client=$1
outdir=${2-.}
case $outdir in -*) outdir=./$outdir ;; esac

case $0 in
*/*) data=${REPORT_DATA:-${0%/*}/clients.csv} ;;
*) data=${REPORT_DATA:-./clients.csv} ;;
esac

delay=${REPORT_DELAY:-0}
case $delay in
*[!0-9.]* | *.*.* | .) die 64 "REPORT_DELAY is not a number of seconds: $delay" ;;
esac

# The client becomes part of a file name and of an address.
case $client in
*[!A-Za-z0-9_-]*) die 65 "unknown client: $client" ;;
esac

if [ ! -f "$data" ] || [ ! -r "$data" ]; then
	die 66 "cannot read $data"
fi

# make_pdf < CSV > PDF
make_pdf() {
	awk -v client="$client" '
function fail(msg) {
	print "generate-report.sh: " msg | "cat 1>&2"
	close("cat 1>&2")
	failed = 1
	exit 65
}

# csv splits one CSV line into field[1..n] and returns n.
function csv(line, field,    i, c, n, quoted) {
	n = 1
	field[1] = ""
	for (i = 1; i <= length(line); i++) {
		c = substr(line, i, 1)
		if (quoted) {
			if (c != "\"")
				field[n] = field[n] c
			else if (substr(line, i + 1, 1) == "\"") {
				field[n] = field[n] c
				i++
			} else
				quoted = 0
		} else if (c == "\"")
			quoted = 1
		else if (c == ",")
			field[++n] = ""
		else
			field[n] = field[n] c
	}
	return n
}

# cents turns "-17.45" into -1745, without a detour over binary fractions.
function cents(s,    sign, part, n) {
	sign = 1
	if (substr(s, 1, 1) == "-") {
		sign = -1
		s = substr(s, 2)
	}
	n = split(s, part, ".")
	return sign * (part[1] * 100 + (n > 1 ? substr(part[2] "0", 1, 2) : 0))
}

function thousands(s,    out) {
	while (length(s) > 3) {
		out = "," substr(s, length(s) - 2) out
		s = substr(s, 1, length(s) - 3)
	}
	return s out
}

function integer(n) {
	return (n < 0 ? "-" : "") thousands(sprintf("%.0f", n < 0 ? -n : n))
}

function money(n,    s) {
	s = sprintf("%03.0f", n < 0 ? -n : n)
	return (n < 0 ? "-" : "") thousands(substr(s, 1, length(s) - 2)) \
		"." substr(s, length(s) - 1)
}

function day(iso) {
	return (substr(iso, 9, 2) + 0) " " month[substr(iso, 6, 2) + 0] " " substr(iso, 1, 4)
}

# Text. Fonts: F1 is Helvetica, F2 is Helvetica-Bold.

function widths(font, list,    i, w) {
	split(list, w, " ")
	for (i = 32; i < 127; i++)
		width[font, sprintf("%c", i)] = w[i - 31]
}

function textwidth(font, size, s,    i, sum) {
	for (i = 1; i <= length(s); i++)
		sum += width[font, substr(s, i, 1)]
	return sum * size / 1000
}

function printable(s) {
	gsub(/[^ -~]/, "?", s)
	return s
}

function fit(font, size, s, max) {
	if (textwidth(font, size, s) <= max)
		return s
	while (s != "" && textwidth(font, size, s "...") > max)
		s = substr(s, 1, length(s) - 1)
	sub(/ +$/, "", s)
	return s "..."
}

# pdfstring writes s as a PDF literal string.
function pdfstring(s,    i, c, out) {
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (c == "(" || c == ")" || c == "\\")
			out = out "\\"
		out = out c
	}
	return "(" out ")"
}

# Drawing, onto the content stream of the current page.

function num(n,    s) {
	s = sprintf("%.2f", n)
	sub(/\.?0+$/, "", s)
	return s
}

function draw(s) { content = content s "\n" }

function left(x, y, font, size, colour, s) {
	draw(colour " rg BT /" font " " num(size) " Tf " num(x) " " num(y) " Td " pdfstring(s) " Tj ET")
}

function right(x, y, font, size, colour, s) {
	left(x - textwidth(font, size, s), y, font, size, colour, s)
}

function box(x, y, w, h, colour) {
	draw(colour " rg " num(x) " " num(y) " " num(w) " " num(h) " re f")
}

function rule(y, thickness, colour) {
	draw(colour " RG " num(thickness) " w " num(L) " " num(y) " m " num(R) " " num(y) " l S")
}

function fact(x, y, label, value) {
	left(x, y + 15, "F1", 8, GREY, label)
	left(x, y, "F2", 11, NAVY, value)
}

# The table.

function row(kind, text, date, qty, unit, amount) {
	rows++
	kindof[rows] = kind
	textof[rows] = text
	dateof[rows] = date
	qtyof[rows] = qty
	unitof[rows] = unit
	amountof[rows] = amount
}

function height(r) { return kindof[r] == "total" ? 30 : kindof[r] == "subtotal" ? 24 : 18 }

function tablehead(y) {
	left(XDATE, y, "F2", 9, NAVY, "Date")
	left(XITEM, y, "F2", 9, NAVY, "Item")
	right(XQTY, y, "F2", 9, NAVY, "Quantity")
	right(XUNIT, y, "F2", 9, NAVY, "Unit price")
	right(XAMOUNT, y, "F2", 9, NAVY, "Amount (EUR)")
	rule(y - 7, 0.75, NAVY)
}

function pagehead(p) {
	if (p == 1) {
		left(L, 768, "F2", 24, NAVY, "Sales report")
		right(R, 768, "F1", 10, GREY, "Example Supplies")
		box(L, 700, R - L, 48, PALE)
		box(L, 700, 3, 48, ACCENT)
		fact(L + 16, 714, "Client", fit("F2", 11, client, 120))
		fact(L + 145, 714, "Period", period)
		fact(L + 315, 714, "Sales lines", integer(n))
		left(XAMOUNT - textwidth("F1", 8, "Total (EUR)"), 729, "F1", 8, GREY, "Total (EUR)")
		right(XAMOUNT, 714, "F2", 11, NAVY, money(total))
	} else {
		left(L, 788, "F2", 11, NAVY, "Sales report")
		right(R, 788, "F1", 9, GREY, client ", " period)
		rule(778, 0.5, LINE)
	}
	tablehead(TOP[p > 1] + 7)
}

function pagefoot(p) {
	rule(52, 0.5, LINE)
	left(L, 38, "F1", 8, GREY, "Sales report for " client ", " period)
	right(R, 38, "F1", 8, GREY, "Page " p " of " pages)
}

# The file. pos counts the bytes written so far.

function emit(s) {
	printf "%s", s
	pos += length(s)
}

function object(id, body) {
	offset[id] = pos
	emit(id " 0 obj\n" body "\nendobj\n")
	if (id > objects)
		objects = id
}

{ sub(/\r$/, "") }

NR == 1 || $0 == "" { next }

{
	fields = csv($0, f)
	if (f[1] != client)
		next
	if (fields != 5)
		fail("line " NR ": 5 fields wanted, " fields " found")
	if (f[2] !~ /^[0-9][0-9][0-9][0-9]-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$/)
		fail("line " NR ": not a date: " f[2])
	if (f[4] !~ /^-?[0-9]+$/)
		fail("line " NR ": not a quantity: " f[4])
	if (f[5] !~ /^-?[0-9]+(\.[0-9][0-9]?)?$/)
		fail("line " NR ": not a price: " f[5])
	# Keep the lines by date, and lines of one date in the order of the file.
	for (i = ++n; i > 1 && date[i - 1] > f[2] ""; i--) {
		date[i] = date[i - 1]
		item[i] = item[i - 1]
		qty[i] = qty[i - 1]
		unit[i] = unit[i - 1]
	}
	date[i] = f[2] ""
	item[i] = printable(f[3])
	qty[i] = f[4] + 0
	unit[i] = cents(f[5])
}

END {
	if (failed)
		exit 65
	if (!n)
		fail("unknown client: " client)

	split("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec", month, " ")
	widths("F1", "278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 " \
		"556 556 556 556 556 556 556 556 556 556 278 278 584 584 584 556 " \
		"1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778 " \
		"667 778 722 667 611 722 667 944 667 667 611 278 278 278 469 556 " \
		"333 556 556 500 556 556 278 556 556 222 222 500 222 833 556 556 " \
		"556 556 333 500 278 556 500 722 500 500 500 334 260 334 584")
	widths("F2", "278 333 474 556 556 889 722 238 333 333 389 584 278 333 278 278 " \
		"556 556 556 556 556 556 556 556 556 556 333 333 584 584 584 611 " \
		"975 722 722 722 722 667 611 778 722 278 556 722 611 833 722 778 " \
		"667 778 722 667 611 722 667 944 667 667 611 333 278 333 584 556 " \
		"333 556 611 556 611 556 333 611 611 278 278 556 278 889 611 611 " \
		"611 611 389 556 333 611 556 778 556 556 500 389 280 389 584")

	NAVY = "0.11 0.20 0.34"; ACCENT = "0.16 0.50 0.62"; INK = "0.15 0.15 0.17"
	GREY = "0.42 0.45 0.50"; LINE = "0.80 0.83 0.87"; PALE = "0.95 0.96 0.98"
	L = 50; R = 545.28 # margins, of an A4 page of 595.28 x 841.89 points
	XDATE = L + 6; XITEM = L + 84; XQTY = L + 334; XUNIT = L + 410; XAMOUNT = R - 6
	TOP[0] = 664; TOP[1] = 744; BOTTOM = 64 # of the table: first page, other pages

	# Rows: the lines of each day, its subtotal, at the end the total.
	for (i = 1; i <= n; i++) {
		amount = qty[i] * unit[i]
		sum += amount
		total += amount
		row("line", item[i], day(date[i]), integer(qty[i]), money(unit[i]), money(amount))
		if (i == n || date[i + 1] != date[i]) {
			row("subtotal", "Subtotal " day(date[i]), "", "", "", money(sum))
			sum = 0
		}
	}
	row("total", "Total", "", "", "", money(total))
	period = day(date[1])
	if (date[n] != date[1])
		period = period " to " day(date[n])

	# Pages: a subtotal or total stays on the page of the row before it, and
	# a day stays in one piece, unless it is longer than half a page.
	pages = 1
	y = TOP[0]
	for (r = 1; r <= rows; r++) {
		need = height(r)
		for (k = r + 1; k <= rows && kindof[k] != "line"; k++)
			need += height(k)
		if (r == 1 || kindof[r - 1] == "subtotal") {
			group = height(r)
			for (k = r + 1; k <= rows && !(kindof[k] == "line" && kindof[k - 1] == "subtotal"); k++)
				group += height(k)
			if (group <= (TOP[1] - BOTTOM) / 2)
				need = group
		}
		if (kindof[r] == "line" && y - need < BOTTOM) {
			pages++
			y = TOP[1]
		}
		pageof[r] = pages
		y -= height(r)
	}

	title = pdfstring("Sales report for " client)
	created = date[n]
	gsub(/-/, "", created)

	emit("%PDF-1.4\n")
	object(1, "<< /Type /Catalog /Pages 2 0 R /Lang (en) /ViewerPreferences << /DisplayDocTitle true >> >>")
	for (p = 1; p <= pages; p++)
		kids = kids (p > 1 ? " " : "") (6 + 2 * (p - 1)) " 0 R"
	object(2, "<< /Type /Pages /Kids [" kids "] /Count " pages " >>")
	object(3, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
	object(4, "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>")
	object(5, "<< /Title " title " /Author (Example Supplies) /Creator (generate-report.sh) " \
		"/CreationDate (D:" created "000000Z) >>")

	r = 1
	for (p = 1; p <= pages; p++) {
		content = ""
		pagehead(p)
		y = TOP[p > 1]
		shown = ""
		for (; r <= rows && pageof[r] == p; r++) {
			y -= height(r)
			if (kindof[r] == "line") {
				if (dateof[r] != shown)
					left(XDATE, y + 5, "F1", 9, INK, dateof[r])
				shown = dateof[r]
				left(XITEM, y + 5, "F1", 9, INK, fit("F1", 9, textof[r], XQTY - XITEM - 40))
				right(XQTY, y + 5, "F1", 9, INK, qtyof[r])
				right(XUNIT, y + 5, "F1", 9, INK, unitof[r])
				right(XAMOUNT, y + 5, "F1", 9, INK, amountof[r])
			} else if (kindof[r] == "subtotal") {
				box(L, y + 4, R - L, 18, PALE)
				left(XITEM, y + 10, "F2", 9, NAVY, textof[r])
				right(XAMOUNT, y + 10, "F2", 9, NAVY, amountof[r])
			} else {
				box(L, y, R - L, 26, NAVY)
				left(XITEM, y + 9, "F2", 11, "1 1 1", textof[r] " (EUR)")
				right(XAMOUNT, y + 9, "F2", 11, "1 1 1", amountof[r])
			}
		}
		pagefoot(p)
		id = 6 + 2 * (p - 1)
		object(id, "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595.28 841.89] " \
			"/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> /Contents " (id + 1) " 0 R >>")
		object(id + 1, "<< /Length " length(content) " >>\nstream\n" content "endstream")
	}

	xref = pos
	emit("xref\n0 " (objects + 1) "\n0000000000 65535 f \n")
	for (i = 1; i <= objects; i++)
		emit(sprintf("%010.0f 00000 n \n", offset[i]))
	emit("trailer\n<< /Size " (objects + 1) " /Root 1 0 R /Info 5 0 R >>\n")
	emit("startxref\n" xref "\n%%EOF\n")
}'
}

mkdir -p "$outdir" || die 73 "cannot make the folder $outdir"

# A temporary file of our own. Other hosts may write to the same folder, and
# may have the same process ids: only a name that did not exist yet will do.
# A signal meanwhile is noted and acted on after, when cleanup knows the name.
caught=
trap 'caught=129' HUP
trap 'caught=130' INT
trap 'caught=143' TERM
set -C
try=0
until { true >"$outdir/.report-$client.$$.$try.tmp"; } 2>/dev/null; do
	try=$((try + 1))
	[ "$try" -lt 100 ] || die 73 "cannot write to the folder $outdir"
done
tmp=$outdir/.report-$client.$$.$try.tmp
set +C
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
[ -z "$caught" ] || exit "$caught"

make_pdf <"$data" >"$tmp"
status=$?
case $status in
0) ;;
65) exit 65 ;;
*) die 73 "cannot write the report (awk: exit status $status)" ;;
esac
mv -f "$tmp" "$outdir/report-$client.pdf" || die 73 "cannot write $outdir/report-$client.pdf"
tmp=

# The sleep is a background job, so that a signal to this shell ends it at once.
# If the sleep alone is ended, no mail is sent either.
case $delay in
*[1-9]*)
	sleep "$delay" >/dev/null 2>&1 &
	sleeper=$!
	wait "$sleeper"
	status=$?
	sleeper=
	[ "$status" -eq 0 ] || die "$status" "the delay of $delay s was cut short"
	;;
esac

# The "e-mail": one line, one write, so that lines of several writers never mix.
mail="$(date -u +%Y-%m-%dT%H:%M:%SZ) to=$client@example.com"
mail="$mail subject=\"Report for $client\" attachment=report-$client.pdf"
mail="$mail fence=${REDLOCKRUN_LOCK_FENCE-}"
printf '%s\n' "$mail" >>"$outdir/outbox" || die 73 "cannot write $outdir/outbox"
