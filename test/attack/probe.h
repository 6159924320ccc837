/*
 * probe.h - attacks from inside the jail, one sentence each
 *
 * "attack run NAME KEY=VALUE..." tries one thing with raw system calls. The words behind the name
 * describe the scene that test_attack.py has laid out: paths of canaries, the pid of a victim,
 * ports of listeners. An attack that comes to its end has succeeded; the functions below end it
 * earlier:
 *
 *	ATTACK(read_secret, HOST_LEAK, "read a file outside")
 *	{
 *		leak_file(outside("secret"));
 *	}
 *
 * The exit status is what the probe believes: 0 it succeeded, 1 it was denied, 2 it could not be
 * tried or failed for a reason that no wall gives, 3 there is nothing by that name, which is a
 * container's way to deny. What really happened is judged from outside: by the canaries, and by the
 * secret words among what was printed.
 *
 * ALLOWED() is the twin of an attack: the nearest thing that must work inside.
 */
#ifndef BRIG_ATTACK_PROBE_H
#define BRIG_ATTACK_PROBE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Whom it would harm; the names are those of the classes in gVisor's security model. */
enum attack_class { ESCAPE, HOST_LEAK, EXFIL, LATERAL, HOST_DOS, PEER_DOS, TWIN, CLASS_COUNT };

struct attack {
	const char *name, *what, *file;
	enum attack_class class;
	void (*run)(void);
	struct attack *next;
};

void attack_add(struct attack *attack);

#define ATTACK(id, kind, text)                                                              \
	static void attack_##id(void);                                                      \
	static struct attack entry_##id = { #id, text, __FILE__, kind, attack_##id, NULL }; \
	__attribute__((constructor)) static void add_##id(void)                             \
	{                                                                                   \
		attack_add(&entry_##id);                                                    \
	}                                                                                   \
	static void attack_##id(void)

#define ALLOWED(id, text) ATTACK(id, TWIN, text)

#define raw syscall

/* The scene, in the words behind the name. A word that is missing ends the attack: exit 2. */
const char *scene(const char *key);
long scene_number(const char *key);
int scene_has(const char *key);

/* Paths of the scene, in buffers that are used in turns: hold no more than a few at a time. */
const char *outside(const char *name);  /* nothing is granted there */
const char *readable(const char *name); /* granted for reading */
const char *inside(const char *name);   /* granted for writing */
const char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

_Noreturn void denied(int code);
_Noreturn void not_there(int code);
_Noreturn void cannot(const char *what); /* errno is printed with it */
void need(long result, const char *what);

/* Goes on with the result of a call that worked; ends the attack when it was refused for one of the
 * reasons. Any other failure is not a wall's: exit 2. */
#define expect_denied(result, ...)                               \
	expect_denied_by((result), (const int[]){ __VA_ARGS__ }, \
			 sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))
long expect_denied_by(long result, const int *codes, size_t count);

/* Calls that would harm the machine are made with arguments that the kernel finds wrong only after
 * it has asked whether the caller may: these errors count as having got through. */
#define past_the_gate(result, ...)                               \
	past_the_gate_by((result), (const int[]){ __VA_ARGS__ }, \
			 sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))
long past_the_gate_by(long result, const int *codes, size_t count);

/* Prints what was got hold of; the judge looks for his secret words in it. */
void leak(const void *data, size_t len);
void leak_fd(int fd);
void leak_file(const char *path);

/* Overwrites the beginning of a file. */
void spoil_fd(int fd);
void spoil_file(const char *path);

/* Runs it in a child and gives its wait status. */
int in_child(void (*run)(void *), void *argument);

/* Modes of the program other than run and list. */
int victim_main(char **arguments);

#endif
