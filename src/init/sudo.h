/*
 * sudo.h - a program inside asks to start another as root
 *
 * Nothing inside gains rights by itself: no_new_privs holds for all. But init is root, and who may ask it
 * for what is decided in one place (porter.c, may_ask). A small client, seen as /usr/bin/sudo, is the same
 * program as init by another name; it connects to an abstract socket of the sandbox's own network and
 * speaks the protocol of message.h as a client does: START, then SIGNAL and RESIZE, until EXITED.
 *
 *	sudo (client.c)  --connect-->  init (sudo.c) forks  porter (porter.c)  --starts-->  the command
 *
 * init itself reads not a byte of this, and never even holds the connection or what came over it: to close
 * a descriptor of somebody's can take as long as he wants (a socket with SO_LINGER). It sees that somebody
 * has come, forks a porter, which accepts, and hears from it over a pair of its own what was started, for
 * the list of processes. Porters without a command are few and have little time; who finds no room waits
 * in the backlog. A porter that is gone takes nothing along but its client's hopes.
 */
#ifndef BRIG_INIT_SUDO_H
#define BRIG_INIT_SUDO_H

#include <sys/socket.h>
#include <sys/un.h>

#include "init/init.h"
#include "init/process.h"

#define SUDO_ADDRESS "BRIG_SUDO" /* a variable with another name, for tests */
#define ASK_MS       10000       /* for a client to say what it wants */

enum porter_news { PORTER_TAKEN, PORTER_STARTED };

struct porter_report {
	enum porter_news news;
	pid_t pid; /* of the command, which is not reaped before its porter has ended */
	char user[64];
	char arguments[ARGUMENTS_SHOWN + 1]; /* each with its NUL, cut off */
	size_t arguments_len;
};

/* The rest of the life of a fork of init. reports: a socket of packets. */
_Noreturn void porter_run(const struct init *init, int listener, int reports);

/* The program itself, by its other name. */
int sudo_main(int argc, char **argv);

/* Its address; the length. 0: the name is too long. */
socklen_t sudo_address(const char *name, struct sockaddr_un *ret_address);

#endif
