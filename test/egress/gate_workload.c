/*
 * gate_workload.c - what a hostile or hurried program does with connect(), for tests of the gate
 *
 *	gate_workload race  GOOD BAD PORT ROUNDS        a second thread rewrites the address
 *	gate_workload swap  GOOD BAD PORT ROUNDS        another one exchanges the descriptor, too
 *	gate_workload flags GOOD BAD PORT ROUNDS        another one clears O_NONBLOCK all the time
 *	gate_workload latency ADDRESS PORT ROUNDS       the median of connect(), in microseconds
 *	gate_workload close ADDRESS PORT ROUNDS         non-blocking, closed or shut down at once
 *
 * Prints how many connections there were; who was reached is counted elsewhere.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct sockaddr_in good, bad;
static struct sockaddr_in volatile shared;
static atomic_int slot = -1;
static atomic_bool is_over;

static void *rewrite(void *unused)
{
	while (!is_over) {
		shared.sin_addr.s_addr = bad.sin_addr.s_addr;
		shared.sin_addr.s_addr = good.sin_addr.s_addr;
	}
	return unused;
}

/* Puts something else behind the number, and a stream again. */
static void *exchange(void *unused)
{
	int others[] = { socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0),
			 socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
			 open("/dev/null", O_RDWR | O_CLOEXEC) };

	for (unsigned int i = 0; !is_over; i++) {
		int fd = slot, fresh;

		if (fd < 0)
			continue;
		dup2(others[i % 3], fd);
		fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		dup2(fresh, fd);
		close(fresh);
	}
	return unused;
}

static void *clear_flags(void *unused)
{
	while (!is_over)
		if (slot >= 0)
			fcntl(slot, F_SETFL, 0);
	return unused;
}

static int new_stream(int flags)
{
	return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

/* Rounds of connect() while others are at work on its arguments. */
static int attack(int rounds, void *(*helper)(void *), int flags)
{
	pthread_t threads[2];
	int connected = 0;

	shared = good;
	pthread_create(&threads[0], NULL, rewrite, NULL);
	if (helper)
		pthread_create(&threads[1], NULL, helper, NULL);
	for (int i = 0; i < rounds; i++) {
		int fd = new_stream(flags);
		struct pollfd p = { .fd = fd, .events = POLLOUT };

		slot = fd;
		if (connect(fd, (const struct sockaddr *)(uintptr_t)&shared, sizeof(shared)) == 0)
			connected++;
		else if (errno == EINPROGRESS && poll(&p, 1, 20) == 1 && p.revents == POLLOUT)
			connected++;
		slot = -1;
		close(fd);
	}
	is_over = true;
	pthread_join(threads[0], NULL);
	if (helper)
		pthread_join(threads[1], NULL);
	printf("%d\n", connected);
	return 0;
}

static int compare(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

static int latency(int rounds)
{
	double *times = calloc((size_t)rounds, sizeof(*times));

	for (int i = 0; i < rounds; i++) {
		struct timespec from, to;
		int fd = new_stream(0);

		clock_gettime(CLOCK_MONOTONIC, &from);
		if (connect(fd, (struct sockaddr *)&good, sizeof(good)) < 0) {
			perror("connect");
			return 1;
		}
		clock_gettime(CLOCK_MONOTONIC, &to);
		times[i] = (double)(to.tv_sec - from.tv_sec) * 1e6 +
			   (double)(to.tv_nsec - from.tv_nsec) / 1e3;
		close(fd);
	}
	qsort(times, (size_t)rounds, sizeof(*times), compare);
	printf("%.1f\n", times[rounds / 2]);
	free(times);
	return 0;
}

/* A closed, shut down, disconnected or reset by its holder while the dial is on its way. */
static int close_early(int rounds)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	for (int i = 0; i < rounds; i++) {
		int fd = new_stream(SOCK_NONBLOCK);

		connect(fd, (struct sockaddr *)&good, sizeof(good));
		if (i % 4 == 1)
			shutdown(fd, SHUT_RDWR);
		if (i % 4 == 2)
			connect(fd, &nobody, sizeof(nobody));
		if (i % 4 == 3 && connect(fd, &nobody, sizeof(nobody)) == 0)
			connect(fd, (struct sockaddr *)&good, sizeof(good));
		close(fd);
	}
	printf("%d\n", rounds);
	return 0;
}

static void set_address(struct sockaddr_in *address, const char *text, const char *port)
{
	*address = (struct sockaddr_in){ .sin_family = AF_INET,
					 .sin_port = htons((uint16_t)atoi(port)) };
	if (inet_pton(AF_INET, text, &address->sin_addr) != 1)
		exit(2);
}

int main(int argc, char **argv)
{
	bool is_race = argc == 6;

	if (argc < 5)
		return 2;
	set_address(&good, argv[2], argv[is_race ? 4 : 3]);
	if (is_race)
		set_address(&bad, argv[3], argv[4]);
	if (strcmp(argv[1], "race") == 0)
		return attack(atoi(argv[5]), NULL, 0);
	if (strcmp(argv[1], "swap") == 0)
		return attack(atoi(argv[5]), exchange, SOCK_NONBLOCK);
	if (strcmp(argv[1], "flags") == 0)
		return attack(atoi(argv[5]), clear_flags, SOCK_NONBLOCK);
	if (strcmp(argv[1], "latency") == 0)
		return latency(atoi(argv[4]));
	if (strcmp(argv[1], "close") == 0)
		return close_early(atoi(argv[4]));
	return 2;
}
