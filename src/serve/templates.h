/*
 * templates.h - rows of templates: for "brig template", beside a daemon that runs or without one, and for the daemon
 *
 * One name of a tenant has a row for each set of tags. Who puts a row under a name and tags takes these tags from
 * the rows that had them; a row without any is gone.
 */
#ifndef BRIG_SERVE_TEMPLATES_H
#define BRIG_SERVE_TEMPLATES_H

#include "data/node.h"
#include "serve/store.h"

#define TEMPLATE_NAME_MAX 128

/* Each prints one JSON object, and returns the status to exit with. */
int templates_put(const struct node *request);
int templates_get(const struct node *request);
int templates_list(const struct node *request);
int templates_delete(const struct node *request);

/* As --json shows it; NULL: out of memory. */
struct node *template_to_node(const struct template *t);

/* Letters, digits, ".", "_", "-"; *ret_tag: behind the colon, "default" without one. */
[[nodiscard]] int template_read_name(const char *text, char ret_name[static TEMPLATE_NAME_MAX + 1],
				     char ret_tag[static TEMPLATE_NAME_MAX + 1], struct err *err);

bool template_has_tag(const struct template *t, const char *tag);

/*
 * Puts t (all of it but id, if that is "", and created). Images that no row needs any more are added to old_images.
 */
struct strv;
[[nodiscard]] int template_put(struct store *store, struct template *t, struct strv *old_images,
			       struct err *err);
/* Takes these tags from the rows of a name but one (NULL: from all); those without a tag are deleted. */
[[nodiscard]] int template_take_tags(struct store *store, const char *tenant, const char *name,
				     const struct node *tags, const char *but_id,
				     struct strv *old_images, struct err *err);
bool template_image_is_needed(struct store *store, const char *image);
[[nodiscard]] int template_new_id(char ret_id[static 21]);

#endif
