# Counts what the guest reported: summaries of pytest and cmocka between "begin" and "end", scripts by their status. What
# did not begin, did not end or ended badly without saying why is a failure. -v expected="who:name who:name ..."

function close_item(status, seconds) {
	if (status != 0 && bad == 0) {
		bad = 1
		print "lab: " item " ended with status " status
	}
	if (good + bad + left == 0)
		good = 1 # a script that found nothing wrong
	passed += good
	failed += bad
	skipped += left
	printf "lab: %-24s %3d passed, %d failed, %d skipped, %d s\n", item, good, bad, left, seconds
	item = ""
}

function number(word,    at) {
	for (at = 2; at <= NF; at++)
		if ($at ~ "^" word "s?,?$")
			return $(at - 1)
	return 0
}

{ sub(/\r$/, "") }
/^lab: Linux / { print }
/^lab: begin / {
	item = $3 " " $4
	good = bad = left = 0
	next
}
/^lab: end / {
	seen[$3 ":" $4] = 1
	close_item($5, $6)
	next
}
/^lab: absent / {
	skipped++
	print "lab: " $3 " skipped: nothing is called " $4
}
/^lab: done$/ { done = 1 }
/^=+ .* in [0-9.]+s( \(.*\))? =+$/ {
	good += number("passed")
	bad += number("failed") + number("error")
	left += number("skipped")
}
/^\[  PASSED  \] [0-9]+ test/ { good += $4 }
/^\[  FAILED  \] [0-9]+ test/ { bad += $4 }
/^\[  SKIPPED \] [0-9]+ test/ { left += $4 }

END {
	if (item != "") {
		failed++
		print "lab: " item " did not end"
	}
	count = split(expected, names, " ")
	for (i = 1; i <= count; i++)
		if (!(names[i] in seen)) {
			failed++
			print "lab: " names[i] " did not report"
		}
	if (!done) {
		failed++
		print "lab: the machine did not come to its end"
	}
	printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
	exit failed > 0 || passed == 0
}
