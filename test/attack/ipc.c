/* ipc.c - objects with a number or a name of their own: System V, POSIX queues, keys */
#include "probe.h"

#include <fcntl.h>
#include <mqueue.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#define IPC_WALL        EPERM, EACCES, ENOSYS
#define KEYRING_OF_USER (-4)
#define KEYCTL_CLEAR    7
#define KEYCTL_SEARCH   10
#define KEYCTL_READ     11

/* A number that means nothing in this namespace. */
static long of_host(long result)
{
	if (result == -1 && (errno == EINVAL || errno == EIDRM))
		not_there(errno);
	return expect_denied(result, IPC_WALL);
}

ATTACK(segment_read, HOST_LEAK, "read a shared memory segment of the host")
{
	const char *data =
		(const char *)of_host(raw(SYS_shmat, scene_number("segment"), NULL, SHM_RDONLY));

	leak(data, strnlen(data, 64));
}

ATTACK(segment_write, LATERAL, "write to a shared memory segment of the host")
{
	char *data = (char *)of_host(raw(SYS_shmat, scene_number("segment"), NULL, 0));

	memcpy(data, "spoiled", 7);
}

ATTACK(segment_remove, PEER_DOS, "remove a shared memory segment of the host")
{
	of_host(raw(SYS_shmctl, scene_number("segment"), IPC_RMID, NULL));
}

ATTACK(segment_make, HOST_DOS, "leave a shared memory segment behind")
{
	expect_denied(raw(SYS_shmget, IPC_PRIVATE, 4096, IPC_CREAT | 0600), IPC_WALL);
}

ATTACK(semaphore_change, LATERAL, "change a semaphore of the host")
{
	struct sembuf raise = { .sem_num = 0, .sem_op = 1 };

	of_host(raw(SYS_semop, scene_number("semaphore"), &raise, 1));
}

ATTACK(message_receive, HOST_LEAK, "take a message from a queue of the host")
{
	struct {
		long type;
		char text[64];
	} message = { 0 };

	of_host(raw(SYS_msgrcv, scene_number("queue"), &message, sizeof(message.text), 0,
		    IPC_NOWAIT));
	leak(message.text, strnlen(message.text, sizeof(message.text)));
}

ATTACK(posix_queue_read, HOST_LEAK, "read a POSIX message queue of the host")
{
	char text[65536];
	int fd = (int)expect_denied(
		raw(SYS_mq_open, scene("mqueue"), O_RDONLY | O_NONBLOCK, 0, NULL), IPC_WALL);
	long n = raw(SYS_mq_timedreceive, fd, text, sizeof(text), NULL, NULL);

	need(n, "mq_timedreceive");
	leak(text, (size_t)n);
}

ATTACK(posix_queue_remove, PEER_DOS, "remove a POSIX message queue of the host")
{
	expect_denied(raw(SYS_mq_unlink, scene("mqueue")), IPC_WALL);
}

ATTACK(posix_memory, HOST_LEAK, "read POSIX shared memory of the host in /dev/shm")
{
	leak_file(scene("shm"));
}

ATTACK(posix_memory_make, LATERAL, "leave something in /dev/shm")
{
	expect_denied(raw(SYS_openat, AT_FDCWD, path_of("%s-new", scene("shm")), O_WRONLY | O_CREAT,
			  0600),
		      IPC_WALL);
}

ATTACK(key_read, HOST_LEAK, "read a key from the user's keyring")
{
	char text[64];
	long id = expect_denied(
		raw(SYS_keyctl, KEYCTL_SEARCH, KEYRING_OF_USER, "user", scene("key"), 0), IPC_WALL);
	long n = expect_denied(raw(SYS_keyctl, KEYCTL_READ, id, text, sizeof(text)), IPC_WALL);

	leak(text, (size_t)n);
}

ATTACK(key_request, HOST_LEAK, "request a key of the user")
{
	expect_denied(raw(SYS_request_key, "user", scene("key"), NULL, KEYRING_OF_USER), IPC_WALL);
}

ATTACK(key_add, LATERAL, "put a key into the user's keyring")
{
	long id = expect_denied(raw(SYS_add_key, "user", path_of("new-%s", scene("key")), "x", 1,
				    KEYRING_OF_USER),
				IPC_WALL);

	raw(SYS_keyctl, 15 /* KEYCTL_SET_TIMEOUT */, id, 1);
}
