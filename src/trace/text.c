#include "trace/text.h"

#include <errno.h>
#include <inttypes.h>

#include "base/str.h"
#include "output/inert.h"
#include "trace/event.h"

int trace_safe_text(const char *text, struct buf *out)
{
	_cleanup_(buf_done) struct buf quoted = BUF(2 * TRACE_LINE_MAX);
	struct inert inert = INERT_START;
	int r = json_write_string(text, strlen(text), &quoted);

	/* Without the quotes. */
	r = r < 0 ? r : inert_feed(&inert, quoted.data + 1, quoted.len - 2, out);
	return r < 0 ? r : inert_finish(&inert, out);
}

static void add_safe(struct buf *out, const char *before, const char *text, const char *behind)
{
	if (!*text)
		return;
	buf_str(out, before);
	if (trace_safe_text(text, out) == 0)
		buf_str(out, behind);
}

static void add_rule(const struct node *rule, struct buf *out)
{
	if (!rule || rule->kind != NODE_MAP)
		return;
	add_safe(out, " (", trace_text(rule, "source"), "");
	if (trace_number(rule, "line"))
		buf_printf(out, ":%" PRId64, trace_number(rule, "line"));
	add_safe(out, " ", trace_text(rule, "key"), "");
	buf_char(out, ')');
}

static void add_start(const struct node *event, struct buf *out)
{
	add_safe(out, " sandbox ", trace_text(event, "sandbox"), "");
	add_safe(out, ", ", trace_text(event, "isolation"), "");
	add_safe(out, ", ", trace_text(event, "policy"), "");
}

static void add_end(const struct node *event, struct buf *out)
{
	buf_printf(out, " with exit code %" PRId64 ", %" PRId64 " refused",
		   trace_number(event, "exit_code"), trace_number(event, "denied"));
}

int trace_event_text(const struct node *event, struct buf *out)
{
	bool is_start = trace_is(event, "sandbox", "start");
	const char *time = trace_text(event, "time");
	int64_t count = trace_number(event, "count"), dropped = trace_number(event, "dropped");

	/* The day stands in the first line only. */
	add_safe(out, "", !is_start && strlen(time) > 11 ? time + 11 : time, "");
	buf_printf(out, " %5" PRId64, trace_number(event, "exec"));
	buf_printf(out, " %-5s ", trace_text(event, "verdict"));
	add_safe(out, "", trace_text(event, "kind"), " ");
	add_safe(out, "", trace_text(event, "action"), "");
	if (is_start)
		add_start(event, out);
	if (trace_is(event, "sandbox", "end"))
		add_end(event, out);
	add_safe(out, is_start ? ": " : " ", trace_text(event, "object"), "");
	add_safe(out, " at ", trace_text(event, "publish"), "");
	if (trace_number(event, "cut"))
		buf_printf(out, "... (%" PRId64 " more bytes)", trace_number(event, "cut"));
	if (count)
		buf_printf(out, " (%" PRId64 " times)", count);
	if (dropped)
		buf_printf(out, " %" PRId64 " events, too many to record", dropped);
	add_rule(node_get(event, "rule"), out);
	add_safe(out, ": ", trace_text(event, "reason"), "");
	add_safe(out, "; allow with ", trace_text(event, "allow_with"), "");
	return buf_char(out, '\n');
}
