/*
 * input.c - what a process gets to read by INPUT
 *
 * An INPUT is answered when all of it is in the pipe, so that one who waits for the answer never has too
 * much on the way.
 */
#include "init/process.h"

#include <string.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

static void forget(struct init *init, struct input_wait *wait)
{
	for (struct input_wait **p = &wait->process->waits; *p; p = &(*p)->next)
		if (*p == wait) {
			*p = wait->next;
			break;
		}
	call_close(init, &wait->call);
	free(wait);
}

/* It is on its way, and nobody wants to know when it has arrived. */
static void cancel(struct init *init, struct call *call)
{
	forget(init, container_of(call, struct input_wait, call));
}

static const struct call_kind input_call = { .cancel = cancel };

void input_close(struct process *p)
{
	struct init *init = p->init;

	source_close(init, &p->input);
	while (p->waits) {
		channel_answer_error(&init->channel, p->waits->call.number, -EPIPE,
				     "process %llu does not read its input any more",
				     (unsigned long long)p->number);
		forget(init, p->waits);
	}
	buf_done(&p->pending);
	p->written = 0;
}

static void answer_written(struct process *p)
{
	uint64_t done = p->input_bytes - (p->pending.len - p->written);

	while (p->waits && p->waits->until <= done) {
		channel_answer_done(&p->init->channel, p->waits->call.number);
		forget(p->init, p->waits);
	}
}

/* The end, as the process sees it: of a pipe its closing, of a terminal a character. */
static void finish(struct process *p)
{
	struct termios modes;
	char end = 4;

	if (p->leader && tcgetattr(p->input.fd, &modes) == 0)
		end = (char)modes.c_cc[VEOF];
	if (p->leader)
		(void)!write(p->input.fd, &end, 1);
	source_close(p->init, &p->input);
}

static void flush(struct process *p)
{
	while (p->written < p->pending.len) {
		ssize_t n = write(p->input.fd, p->pending.data + p->written,
				  p->pending.len - p->written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			input_close(p);
			return;
		}
		p->written += (size_t)n;
	}
	answer_written(p);
	if (p->written < p->pending.len) {
		if (source_watch(p->init, &p->input, EPOLLOUT) < 0)
			input_close(p);
		return;
	}
	(void)!source_watch(p->init, &p->input, 0);
	buf_done(&p->pending);
	p->written = 0;
	if (p->input_ends)
		finish(p);
}

void input_ready(struct init *init, struct source *source, uint32_t events)
{
	(void)init;
	(void)events;
	flush(container_of(source, struct process, input));
}

/* The process, if it takes input at all; else it was answered. */
static struct process *find_open(struct init *init, const struct message *m)
{
	struct process *p = process_find(init, m);

	if (!p)
		return NULL;
	if (p->input.fd >= 0 && !p->input_ends)
		return p;
	channel_answer_error(&init->channel, m->call, -EPIPE, "process %llu %s",
			     (unsigned long long)p->number,
			     p->state == PROCESS_ENDED ? "has ended"
			     : p->input_ends           ? "was told the end of its input"
						       : "takes no input by messages");
	return NULL;
}

static int add(struct process *p, const struct message *m)
{
	struct input_wait *wait, **last = &p->waits;
	size_t len, count = 0;
	const void *data = message_bytes(m, FIELD_DATA, &len);
	int r;

	if (p->pending.len - p->written + len > INPUT_MAX)
		return -EAGAIN;
	for (; *last; last = &(*last)->next)
		count++;
	if (count >= INPUT_WAITS_MAX)
		return -EAGAIN;
	wait = malloc(sizeof(*wait));
	if (!wait)
		return -ENOMEM;
	if (p->written > 0) {
		memmove(p->pending.data, p->pending.data + p->written, p->pending.len - p->written);
		p->pending.len -= p->written;
		p->written = 0;
	}
	r = buf_add(&p->pending, data, len);
	if (r < 0) {
		free(wait);
		return r;
	}
	p->input_bytes += len;
	*wait = (struct input_wait){ .process = p, .until = p->input_bytes };
	*last = wait;
	call_open(p->init, &wait->call, m->call, &input_call);
	return 0;
}

void process_input(struct init *init, struct message *m)
{
	struct process *p = find_open(init, m);
	int r;

	if (!p)
		return;
	r = add(p, m);
	if (r == -EAGAIN)
		channel_answer_error(&init->channel, m->call, r,
				     "process %llu does not read: wait for an answer first",
				     (unsigned long long)p->number);
	else if (r < 0)
		channel_answer_error(&init->channel, m->call, r, "out of memory");
	else
		flush(p);
}

void process_input_end(struct init *init, struct message *m)
{
	struct process *p = find_open(init, m);

	if (!p)
		return;
	p->input_ends = true;
	channel_answer_done(&init->channel, m->call);
	flush(p);
}
