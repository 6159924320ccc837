#include "init/init.h"

#include "init/files.h"

void call_open(struct init *init, struct call *call, uint32_t number, const struct call_kind *kind)
{
	*call = (struct call){ .next = init->calls, .kind = kind, .number = number };
	init->calls = call;
}

void call_close(struct init *init, struct call *call)
{
	if (!call->kind)
		return;
	for (struct call **p = &init->calls; *p; p = &(*p)->next)
		if (*p == call) {
			*p = call->next;
			break;
		}
	*call = (struct call){ 0 };
}

static struct call *find(struct init *init, uint32_t number)
{
	for (struct call *call = init->calls; call; call = call->next)
		if (call->number == number)
			return call;
	return NULL;
}

void answer_send(struct init *init, struct draft *d)
{
	(void)!channel_send(&init->channel, d, NULL, 0);
	draft_done(d);
}

void answer_err(struct init *init, uint32_t call, const struct err *err)
{
	channel_answer_error(&init->channel, call, err->code, "%s", err->text);
}

/* What begins a call. The answers are on their way when the handler returns, or the call is open. */
static void (*const beginnings[MESSAGE_TYPE_COUNT])(struct init *init, struct message *m) = {
	[MESSAGE_START] = process_start,    [MESSAGE_ATTACH] = reader_attach,
	[MESSAGE_INPUT] = process_input,    [MESSAGE_INPUT_END] = process_input_end,
	[MESSAGE_SIGNAL] = process_signal,  [MESSAGE_RESIZE] = process_resize,
	[MESSAGE_PROCESSES] = process_list, [MESSAGE_USAGE] = usage_tell,
	[MESSAGE_DIAL] = dial_start,
};

/* What belongs to one. A call that has just ended may still get some: that is nobody's mistake. */
static void hand_on(struct init *init, struct call *call, struct message *m)
{
	if (!call)
		return;
	if (m->type == MESSAGE_CANCEL)
		call->kind->cancel(init, call);
	else if (call->kind->receive)
		call->kind->receive(init, call, m);
}

void call_handle(struct init *init, struct message *m)
{
	void (*begin)(struct init * init, struct message * m) =
		files_has(m->type) ? errand_start : beginnings[m->type];
	struct call *call = find(init, m->call);

	switch (m->type) {
	case MESSAGE_DATA:
	case MESSAGE_DATA_END:
	case MESSAGE_CREDIT:
	case MESSAGE_CANCEL:
		hand_on(init, call, m);
		return;
	default:
		break;
	}
	/* The answers that a warden may give are not for us. */
	if (!begin)
		return;
	if (call)
		channel_answer_error(&init->channel, m->call, -EINVAL,
				     "there is a call with this number already");
	else
		begin(init, m);
}
