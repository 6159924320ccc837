#include "cases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fd.h"

static int set_text(char **text, const char *value)
{
	free(*text);
	*text = strdup(value);
	return *text ? 0 : -ENOMEM;
}

static int add_case(struct cases *cases, const char *name)
{
	struct bench_case *item = &cases->items[cases->count];

	if (cases->count == CASES_MAX)
		return -E2BIG;
	*item = (struct bench_case){ .mount_fd = -EBADF };
	cases->count++;
	return set_text(&item->name, name);
}

static int set_role(struct cases *cases, const char *role)
{
	struct bench_case *item = &cases->items[cases->count - 1];

	if (str_equal(role, "zero"))
		cases->zero = item;
	else if (str_equal(role, "peer"))
		item->can_be_peer = true;
	else if (str_equal(role, "living"))
		cases->living = item;
	else
		return -EINVAL;
	return 0;
}

static int read_line(struct cases *cases, const char *word, const char *value)
{
	struct bench_case *item;

	if (str_equal(word, "section"))
		return set_text(&cases->section, value);
	if (str_equal(word, "case"))
		return add_case(cases, value);
	if (cases->count == 0)
		return -EINVAL;
	item = &cases->items[cases->count - 1];
	if (str_equal(word, "arg"))
		return strv_add(&item->argv, value);
	if (str_equal(word, "walls"))
		return set_text(&item->walls, value);
	if (str_equal(word, "mounts"))
		return set_text(&item->mounts, value);
	if (str_equal(word, "is"))
		return set_role(cases, value);
	return -EINVAL;
}

static int read_file(const char *path, struct cases *cases, struct err *err)
{
	char line[4096];
	int r = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return err_errno(err, -errno, "\"%s\"", path);
	for (size_t n = 1; r == 0 && fgets(line, sizeof(line), file); n++) {
		char *value;

		line[strcspn(line, "\n")] = '\0';
		if (!line[0] || line[0] == '#')
			continue;
		value = line + strcspn(line, " ");
		if (*value)
			*value++ = '\0';
		r = read_line(cases, line, value);
		if (r < 0)
			err_errno(err, r, "\"%s\" line %zu: \"%s\"", path, n, line);
	}
	fclose(file);
	return r;
}

static int prepare_case(struct bench_case *item, size_t rounds, struct err *err)
{
	if (item->argv.count == 0)
		return err_set(err, -EINVAL, "case \"%s\" has no command", item->name);
	item->values = calloc(rounds, sizeof(*item->values));
	if (!item->values)
		return err_errno(err, -ENOMEM, "%zu rounds", rounds);
	if (!item->mounts)
		return 0;
	item->mount_fd = open(item->mounts, O_RDONLY | O_CLOEXEC);
	return item->mount_fd < 0 ? err_errno(err, -errno, "\"%s\"", item->mounts) : 0;
}

int cases_load(const char *path, size_t rounds, struct cases *ret_cases, struct err *err)
{
	struct cases *cases = ret_cases;
	int r;

	/* Zero and peer point into the struct, so it is filled in place and emptied on failure. */
	*cases = (struct cases){ 0 };
	r = read_file(path, cases, err);
	if (r == 0 && cases->count == 0)
		r = err_set(err, -EINVAL, "\"%s\": no cases", path);
	for (size_t i = 0; r == 0 && i < cases->count; i++)
		r = prepare_case(&cases->items[i], rounds, err);
	if (r == 0 && cases->living && cases->living != &cases->items[cases->count - 1])
		r = err_set(err, -EINVAL, "\"%s\": the living case is not the last", path);
	if (r < 0) {
		cases->living = NULL;
		cases_done(cases);
	} else if (cases->living) {
		cases->count--;
	}
	return r;
}

void cases_done(struct cases *cases)
{
	for (size_t i = 0; i < cases->count + (cases->living != NULL); i++) {
		struct bench_case *item = &cases->items[i];

		free(item->name);
		free(item->walls);
		free(item->mounts);
		free(item->values);
		strv_done(&item->argv);
		fd_close(item->mount_fd);
	}
	free(cases->section);
	*cases = (struct cases){ 0 };
}
