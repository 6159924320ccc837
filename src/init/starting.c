#include "init/starting.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/str.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

#define VARIABLES_MAX 4096
#define PATH_DEFAULT  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

void starting_done(struct starting *s)
{
	free(s->spawn.argv);
	free(s->spawn.script_argv);
	free(s->spawn.envp);
	for (size_t i = 0; i < ARRAY_SIZE(s->to_close); i++)
		fd_close(s->to_close[i]);
}

static size_t count_texts(const struct message *m, enum field field)
{
	size_t at = 0, count = 0;

	while (message_next_text(m, field, &at))
		count++;
	return count;
}

static int read_arguments(const struct message *m, struct spawn *spawn)
{
	size_t count = count_texts(m, FIELD_ARGUMENT), at = 0;

	spawn->argv = calloc(count + 1, sizeof(char *));
	spawn->script_argv = calloc(count + 2, sizeof(char *));
	if (!spawn->argv || !spawn->script_argv)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		spawn->argv[i] = (char *)(uintptr_t)message_next_text(m, FIELD_ARGUMENT, &at);
	return 0;
}

/* Over one of the same name, or behind the last. */
static void set_variable(char **envp, const char *variable)
{
	size_t len = strcspn(variable, "=") + 1;

	while (*envp && strncmp(*envp, variable, len) != 0)
		envp++;
	*envp = (char *)(uintptr_t)variable;
}

void starting_set(struct starting *s, const char *fmt, ...)
{
	va_list ap;

	if (s->own_count == ARRAY_SIZE(s->own))
		return;
	va_start(ap, fmt);
	vsnprintf(s->own[s->own_count], sizeof(s->own[0]), fmt, ap);
	va_end(ap);
	set_variable(s->spawn.envp, s->own[s->own_count++]);
}

static void set_user_variables(struct starting *s)
{
	const struct user *user = &s->spawn.user;
	const char *const names[] = { "HOME", "USER", "LOGNAME", "SHELL" };
	const char *const values[] = { user->home, user->name, user->name, user->shell };

	if (user->is_default)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		starting_set(s, "%s=%s", names[i], values[i]);
}

static int read_variables(const struct message *m, struct starting *s, struct err *err)
{
	size_t count = count_texts(m, FIELD_VARIABLE), own = 0, at = 0;
	const char *variable;

	if (count > VARIABLES_MAX)
		return err_set(err, -E2BIG, "more than %d variables", VARIABLES_MAX);
	while (environ[own])
		own++;
	s->spawn.envp = calloc(own + count + ARRAY_SIZE(s->own) + 1, sizeof(char *));
	if (!s->spawn.envp)
		return err_set(err, -ENOMEM, "out of memory");
	memcpy(s->spawn.envp, environ, own * sizeof(char *));
	set_user_variables(s);
	while ((variable = message_next_text(m, FIELD_VARIABLE, &at))) {
		if (variable[0] == '=' || !strchr(variable, '='))
			return err_set(err, -EINVAL, "\"%s\" is not a variable (NAME=value)",
				       variable);
		set_variable(s->spawn.envp, variable);
	}
	s->spawn.search = PATH_DEFAULT;
	for (char **p = s->spawn.envp; *p; p++)
		if (str_starts(*p, "PATH="))
			s->spawn.search = *p + 5;
	return 0;
}

/* "~" is the home of the user: where the sandbox's own user is it, that of the sandbox. */
static int read_directory(const struct message *m, struct starting *s, struct err *err)
{
	const char *directory = message_text(m, FIELD_DIRECTORY, NULL);
	const char *home = s->spawn.user.home;

	s->spawn.directory = directory;
	if (!directory || directory[0] != '~' || (directory[1] && directory[1] != '/'))
		return 0;
	if (s->spawn.user.is_default && getenv("HOME"))
		home = getenv("HOME");
	if (snprintf(s->directory, sizeof(s->directory), "%s%s", home, directory + 1) >=
	    (int)sizeof(s->directory))
		return err_set(err, -ENAMETOOLONG, "the directory is too long");
	s->spawn.directory = s->directory;
	return 0;
}

int starting_read(struct starting *s, const struct message *m, const char *user, struct err *err)
{
	int r = read_arguments(m, &s->spawn);

	if (r < 0)
		return err_set(err, r, "out of memory");
	r = user_choose(message_text(m, FIELD_USER, user), &s->spawn.rights, &s->spawn.user, err);
	r = r < 0 ? r : read_variables(m, s, err);
	return r < 0 ? r : read_directory(m, s, err);
}

/* The file of a slave belongs to whoever opens the master. */
static int open_master(const struct user *user, bool has_users)
{
	const int flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
	int fd;

	user_act_as(user, has_users);
	fd = open("/dev/ptmx", flags);
	if (fd < 0)
		fd = open("/dev/pts/ptmx", flags);
	fd = fd < 0 ? -errno : fd;
	user_act_as(NULL, has_users);
	return fd;
}

int starting_make_terminal(struct starting *s, const struct message *m, int *ret_master,
			   struct err *err)
{
	const struct winsize size = {
		.ws_row = (unsigned short)message_number(m, FIELD_ROWS, 24),
		.ws_col = (unsigned short)message_number(m, FIELD_COLUMNS, 80),
	};
	_cleanup_close_ int master = open_master(&s->spawn.user, s->spawn.rights.has_users);
	int unlock = 0, slave = -EBADF;

	if (master < 0)
		return err_errno(err, master, "cannot make a terminal in the sandbox");
	if (ioctl(master, TIOCSPTLCK, &unlock) == 0)
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_errno(err, -errno, "cannot open the terminal that was made");
	s->to_close[0] = slave;
	(void)!ioctl(slave, TIOCSWINSZ, &size);
	if (s->spawn.rights.has_users)
		(void)!fchown(slave, s->spawn.user.uid, (gid_t)-1);
	*ret_master = take_fd(&master);
	return 0;
}
