#include "serve/denials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

int denials_open(const char *id, struct denials *denials)
{
	struct err err = ERR_NONE;

	*denials = (struct denials){ .record = RECORDING_NONE };
	return record_open(id, &denials->record, &err);
}

void denials_done(struct denials *denials)
{
	record_done(&denials->record);
}

static void set_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
	/* Cut between characters. */
	if (!is_utf8(to, strlen(to)))
		str_make_printable(to);
}

static void fill(struct denial *d, const struct node *line)
{
	const struct node *rule = node_get(line, "rule");

	*d = (struct denial){ 0 };
	set_text(d->action, sizeof(d->action), trace_text(line, "action"));
	set_text(d->object, sizeof(d->object), trace_text(line, "object"));
	set_text(d->reason, sizeof(d->reason), trace_text(line, "reason"));
	set_text(d->allow_with, sizeof(d->allow_with), trace_text(line, "allow_with"));
	if (!rule || rule->kind != NODE_MAP)
		return;
	set_text(d->rule_source, sizeof(d->rule_source), trace_text(rule, "source"));
	set_text(d->rule_key, sizeof(d->rule_key), trace_text(rule, "key"));
	d->rule_line = (unsigned int)trace_number(rule, "line");
}

static bool is_known(const struct denials *denials, const struct denial *d)
{
	for (size_t i = 0; i < denials->count; i++)
		if (str_equal(denials->items[i].action, d->action) &&
		    str_equal(denials->items[i].object, d->object) &&
		    str_equal(denials->items[i].reason, d->reason))
			return true;
	return false;
}

static void add_denial(struct denials *denials, const struct node *line)
{
	struct denial d;

	if (trace_is(line, "sandbox", "dropped")) {
		denials->left_out += (uint64_t)trace_number(line, "dropped");
		return;
	}
	fill(&d, line);
	if (is_known(denials, &d))
		return;
	if (denials->count == RESULT_MAX_DENIALS)
		denials->left_out += MAX((uint64_t)trace_number(line, "count"), (uint64_t)1);
	else
		denials->items[denials->count++] = d;
}

static void take_end(struct denials *denials, const struct node *line)
{
	const char *reason = trace_text(line, "reason");

	for (size_t i = 0; i < REASON_COUNT; i++)
		if (str_equal(reason, reason_names[i])) {
			denials->has_ended = true;
			denials->reason = (enum reason)i;
		}
}

/* Only what may be of interest is read as JSON. */
static void take_line(struct denials *denials, const char *text, size_t len)
{
	static const char deny[] = ",\"verdict\":\"deny\"", end[] = "\"action\":\"end\"";
	_cleanup_(node_freep) struct node *line = NULL;
	struct err err = ERR_NONE;
	bool is_denied = memmem(text, len, deny, sizeof(deny) - 1);

	if (!is_denied && !memmem(text, len, end, sizeof(end) - 1))
		return;
	if (trace_line_parse(text, len, &line, &err) < 0)
		return;
	if (trace_is(line, "sandbox", "end"))
		take_end(denials, line);
	else if (is_denied)
		add_denial(denials, line);
}

int denials_step(struct denials *denials)
{
	const char *line;
	uint64_t seq;
	size_t len;
	int r;

	record_new_slice(&denials->record);
	while ((r = record_next(&denials->record, &line, &len, &seq)) > 0)
		take_line(denials, line, len);
	return r == -EAGAIN ? 1 : r;
}
