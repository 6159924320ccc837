/*
 * api.c - a client of the daemon's that costs next to nothing, for bench/run
 *
 *	api cycle HOST:PORT KEY			create, a command's first output, kill: once
 *	api cycles HOST:PORT KEY COUNT AT-ONCE	the same many times; prints p50 in ms, and how many a second
 *	api create HOST:PORT KEY COUNT AT-ONCE	creations alone, which stay; prints p50 in ms, and how many a second
 *	api bulk HOST:PORT KEY MIB		a command that prints so much; prints MiB/s
 *	api hold HOST:PORT COUNT SECONDS	connections that do nothing after one request each; prints how many live
 *	api get HOST:PORT PATH COUNT AT-ONCE	requests on connections that are kept; prints how many a second
 *	api spawn COUNT WORD...			no client: starts a command, one after another; prints p50 in ms, and how many a second
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in server;
static const char *key = "";

static void die(const char *what)
{
	fprintf(stderr, "api: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void set_server(const char *text)
{
	char host[64];
	const char *colon = strrchr(text, ':');

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		die("HOST:PORT");
	snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	server.sin_family = AF_INET;
	server.sin_port = htons((uint16_t)atoi(colon + 1));
	if (inet_pton(AF_INET, host, &server.sin_addr) != 1)
		die(host);
}

static int dial(void)
{
	const int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof(server)) < 0)
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static void send_all(int fd, const void *data, size_t len)
{
	for (const char *at = data; len > 0;) {
		ssize_t n = write(fd, at, len);

		if (n <= 0)
			die("write");
		at += n;
		len -= (size_t)n;
	}
}

/* An answer with a length: its status; the body is what is behind. */
static int read_answer(int fd, char *data, size_t size, char **ret_body)
{
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, data + have, size - 1 - have);
		char *end, *length;

		if (n <= 0)
			die("read");
		have += (size_t)n;
		data[have] = '\0';
		end = strstr(data, "\r\n\r\n");
		if (!end)
			continue;
		length = strcasestr(data, "\r\ncontent-length:");
		if (!length || length > end ||
		    have >= (size_t)(end + 4 - data) + strtoul(length + 17, NULL, 10)) {
			*ret_body = end + 4;
			return atoi(data + 9);
		}
	}
}

static void create(int fd, char id[64], char token[128])
{
	static const char body[] = "{\"templateID\":\"base\",\"timeout\":600}";
	char data[8192], *answer, *at;
	int n = snprintf(data, sizeof(data),
			 "POST /v2/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n"
			 "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
			 key, sizeof(body) - 1, body);

	send_all(fd, data, (size_t)n);
	if (read_answer(fd, data, sizeof(data), &answer) != 201) {
		fprintf(stderr, "api: create: %s\n", answer);
		exit(1);
	}
	at = strstr(answer, "\"sandboxID\":\"");
	if (!at || sscanf(at + 13, "%63[a-z0-9]", id) != 1)
		die("no sandboxID");
	at = strstr(answer, "\"envdAccessToken\":\"");
	if (!at || sscanf(at + 19, "%127[^\"]", token) != 1)
		token[0] = '\0';
}

static void start(int fd, const char *id, const char *token, const char *command)
{
	char body[1024], data[2048];
	int len = snprintf(
		body + 5, sizeof(body) - 5,
		"{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"%s\"]},\"stdin\":false}",
		command);
	int n;

	body[0] = 0;
	for (int i = 0; i < 4; i++)
		body[1 + i] = (char)(len >> (24 - 8 * i));
	n = snprintf(data, sizeof(data),
		     "POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\n"
		     "E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n"
		     "Connect-Protocol-Version: 1\r\nContent-Type: application/connect+json\r\n"
		     "Content-Length: %d\r\n\r\n",
		     id, token, len + 5);
	memcpy(data + n, body, (size_t)len + 5);
	send_all(fd, data, (size_t)(n + len + 5));
}

/* Until this word was seen; how many bytes it was. */
static uint64_t read_until(int fd, const char *word)
{
	static char data[1 << 18];
	size_t len = strlen(word), have = 0;
	uint64_t bytes = 0;

	for (;;) {
		ssize_t n = read(fd, data + have, sizeof(data) - have);

		if (n <= 0)
			die("read");
		bytes += (uint64_t)n;
		have += (size_t)n;
		if (memmem(data, have, word, len))
			return bytes;
		/* What could be the beginning of the word stays. */
		if (have > len) {
			memmove(data, data + have - len, len);
			have = len;
		}
	}
}

/* Until the last chunk. A client that looked at every byte would be what is measured. */
static void read_to_end(int fd)
{
	static const char last[] = "\r\n0\r\n\r\n";
	static char data[(1 << 18) + sizeof(last)];
	const size_t len = sizeof(last) - 1;
	size_t have = 0;

	for (;;) {
		ssize_t n = read(fd, data + have, sizeof(data) - have);

		if (n <= 0)
			die("read");
		have += (size_t)n;
		if (have < len)
			continue;
		memmove(data, data + have - len, len);
		have = len;
		if (memcmp(data, last, len) == 0)
			return;
	}
}

static void end(int fd, const char *id)
{
	char data[4096], *answer;
	int n = snprintf(
		data, sizeof(data),
		"DELETE /sandboxes/%s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n\r\n", id,
		key);

	send_all(fd, data, (size_t)n);
	if (read_answer(fd, data, sizeof(data), &answer) != 204)
		die("kill");
}

/* The stream has a connection of its own, as in the field's clients. */
static void cycle(int fd)
{
	char id[64], token[128];
	int stream;

	create(fd, id, token);
	stream = dial();
	start(stream, id, token, "echo hi");
	read_until(stream, "\"stdout\"");
	end(fd, id);
	close(stream);
}

static void make(int fd)
{
	char id[64], token[128];

	create(fd, id, token);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void many(void (*what)(int fd), int count, int at_once)
{
	double *times = mmap(NULL, (size_t)count * sizeof(*times), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double began = now_ms(), whole;
	int status, bad = 0;

	if (times == MAP_FAILED)
		die("mmap");
	for (int i = 0; i < at_once; i++)
		if (fork() == 0) {
			int fd = dial();

			for (int n = i; n < count; n += at_once) {
				double t = now_ms();

				what(fd);
				times[n] = now_ms() - t;
			}
			_exit(0);
		}
	while (wait(&status) > 0)
		bad += status != 0;
	whole = now_ms() - began;
	if (bad)
		exit(1);
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%.2f ms p50, %.0f a second\n", times[count / 2], count / whole * 1e3);
}

static void spawn(int count, char **words)
{
	double *times = calloc((size_t)count, sizeof(*times)), began = now_ms(), whole;
	posix_spawn_file_actions_t actions;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	for (int i = 0; i < count; i++) {
		double t = now_ms();
		int status;
		pid_t pid;

		errno = posix_spawnp(&pid, words[0], &actions, NULL, words, environ);
		if (errno != 0 || waitpid(pid, &status, 0) < 0 || status != 0)
			die(words[0]);
		times[i] = now_ms() - t;
	}
	whole = now_ms() - began;
	qsort(times, (size_t)count, sizeof(*times), compare);
	printf("%.2f ms p50, %.0f a second\n", times[count / 2], count / whole * 1e3);
}

static void bulk(int mib)
{
	char id[64], token[128], command[128];
	int fd = dial(), stream = dial();
	double began;

	create(fd, id, token);
	snprintf(command, sizeof(command), "head -c %dM /dev/zero", mib);
	began = now_ms();
	start(stream, id, token, command);
	read_to_end(stream);
	printf("%.0f MiB/s\n", mib / (now_ms() - began) * 1e3);
	end(fd, id);
}

static int request_text(const char *path, char *data, size_t size)
{
	return snprintf(data, size, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
}

static void hold(int count, int seconds)
{
	char data[4096], *answer;
	int *fds = calloc((size_t)count, sizeof(*fds)),
	    n = request_text("/v1/health", data, sizeof(data));
	struct rlimit all;
	int alive = 0;

	getrlimit(RLIMIT_NOFILE, &all);
	all.rlim_cur = all.rlim_max;
	setrlimit(RLIMIT_NOFILE, &all);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < count; i++) {
			if (round == 0)
				fds[i] = dial();
			n = request_text("/v1/health", data, sizeof(data));
			send_all(fds[i], data, (size_t)n);
			read_answer(fds[i], data, sizeof(data), &answer);
			alive += round;
		}
		if (round == 0)
			sleep((unsigned int)seconds);
	}
	printf("%d\n", alive);
}

/* One process, many connections, each with one request under way. */
static void get(const char *path, int count, int at_once)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC), done = 0, sent = 0;
	char data[4096], answer[65536];
	int n = request_text(path, data, sizeof(data));
	double began;

	for (int i = 0; i < at_once; i++) {
		struct epoll_event event = { .events = EPOLLIN };

		event.data.fd = dial();
		epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
		send_all(event.data.fd, data, (size_t)n);
		sent++;
	}
	began = now_ms();
	while (done < count) {
		struct epoll_event events[64];
		int ready = epoll_wait(epoll, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			/* Answers are short, and come whole. */
			if (read(events[i].data.fd, answer, sizeof(answer)) <= 0)
				die("read");
			done++;
			if (sent < count + at_once) {
				send_all(events[i].data.fd, data, (size_t)n);
				sent++;
			}
		}
	}
	printf("%.0f a second\n", done / (now_ms() - began) * 1e3);
}

int main(int argc, char **argv)
{
	const char *verb = argc > 3 ? argv[1] : "";

	if (strcmp(verb, "spawn") == 0)
		return spawn(atoi(argv[2]), argv + 3), 0;
	if (argc > 3)
		set_server(argv[2]);
	if (argc > 3)
		key = argv[3];
	if (strcmp(verb, "cycle") == 0)
		cycle(dial());
	else if (strcmp(verb, "cycles") == 0 && argc == 6)
		many(cycle, atoi(argv[4]), atoi(argv[5]));
	else if (strcmp(verb, "create") == 0 && argc == 6)
		many(make, atoi(argv[4]), atoi(argv[5]));
	else if (strcmp(verb, "bulk") == 0 && argc == 5)
		bulk(atoi(argv[4]));
	else if (strcmp(verb, "hold") == 0 && argc == 5)
		hold(atoi(argv[3]), atoi(argv[4]));
	else if (strcmp(verb, "get") == 0 && argc == 6)
		get(argv[3], atoi(argv[4]), atoi(argv[5]));
	else
		return fprintf(stderr, "usage: see bench/api.c\n"), 2;
	return 0;
}
