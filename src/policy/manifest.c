/* manifest.c - a policy as a tree: canonical form, digest and JSON Schema */
#include <errno.h>
#include <stdio.h>

#include "base/sha256.h"
#include "data/schema.h"
#include "policy/types.h"

/* The map that a key's last part belongs in: the root, or the section, made when it is missing. */
static struct node *section_of(struct node *root, const char *name, const char **ret_last)
{
	const char *dot = strchr(name, '.');
	_cleanup_free_ char *section = NULL;
	const struct node *found;

	*ret_last = dot ? dot + 1 : name;
	if (!dot)
		return root;
	section = strndup(name, (size_t)(dot - name));
	if (!section)
		return NULL;
	found = node_get(root, section);
	if (!found && node_set(root, section, node_map()) < 0)
		return NULL;
	return (struct node *)(uintptr_t)node_get(root, section);
}

int policy_to_node(const struct policy *policy, struct node **ret_node)
{
	_cleanup_(node_freep) struct node *root = node_map();
	int r = root ? node_set(root, "version", node_int(1)) : -ENOMEM;

	for (size_t i = 0; i < policy_key_count && r == 0; i++) {
		const struct key *key = &policy_keys[i];
		const struct type_ops *ops = type_ops_of(key->type);
		const void *field = key_field_const(key, policy);
		struct node *value = NULL, *section;
		const char *last;

		if (!ops->is_set(field))
			continue;
		section = section_of(root, key->name, &last);
		r = section ? ops->to_node(field, &value) : -ENOMEM;
		r = r < 0 ? r : node_set(section, last, value);
	}
	if (r < 0)
		return r;
	*ret_node = take_ptr(&root);
	return 0;
}

int policy_digest(const struct policy *policy, char text[static POLICY_DIGEST_SIZE])
{
	_cleanup_(node_freep) struct node *root = NULL;
	_cleanup_(buf_done) struct buf json = BUF(16 * MIB);
	char hex[SHA256_HEX_SIZE];
	int r = policy_to_node(policy, &root);

	r = r < 0 ? r : json_write(root, true, &json);
	if (r < 0)
		return r;
	sha256_hex(buf_text(&json), json.len, hex);
	snprintf(text, POLICY_DIGEST_SIZE, "sha256:%s", hex);
	return 0;
}

static int schema_key(struct node *properties, const struct key *key)
{
	_cleanup_(node_freep) struct node *schema = node_map();
	_cleanup_(buf_done) struct buf text = BUF(1000);
	int r;

	buf_printf(&text, "%s (default: %s)", key->summary, key->initial);
	if (key->needs)
		buf_printf(&text, "; needs %s, not in this version", key->needs);
	r = schema ? node_set(schema, "description", node_string(buf_text(&text))) : -ENOMEM;
	r = r < 0 ? r : type_ops_of(key->type)->schema(schema);
	return r < 0 ? r
		     : node_set(properties,
				strrchr(key->name, '.') ? strrchr(key->name, '.') + 1 : key->name,
				take_ptr(&schema));
}

/* The "properties" of a section's schema, made when it is missing. */
static struct node *schema_section(struct node *properties, const char *name)
{
	const char *dot = strchr(name, '.');
	_cleanup_free_ char *section = NULL;
	_cleanup_(node_freep) struct node *schema = NULL;
	const struct node *found;

	if (!dot)
		return properties;
	section = strndup(name, (size_t)(dot - name));
	if (!section)
		return NULL;
	found = node_get(properties, section);
	if (!found) {
		schema = node_map();
		if (!schema || node_set(schema, "type", node_string("object")) < 0 ||
		    node_set(schema, "additionalProperties", node_bool(false)) < 0 ||
		    node_set(schema, "properties", node_map()) < 0 ||
		    node_set(properties, section, take_ptr(&schema)) < 0)
			return NULL;
		found = node_get(properties, section);
	}
	return (struct node *)(uintptr_t)node_get(found, "properties");
}

/* version and extends are no keys of the table: they say how to read the rest. */
static int schema_header(struct node *document)
{
	_cleanup_(node_freep) struct node *version = node_map(), *item = schema_type("string");
	int r = node_set(version, "const", node_int(1));

	r = r < 0 ? r : node_set(item, "pattern", node_string("^[^/.]+$"));
	r = r < 0 ? r : schema_add(document, "version", take_ptr(&version), true);
	return r < 0 ? r
		     : schema_add(document, "extends",
				  schema_described(schema_list(take_ptr(&item)),
						   "names of shipped policies or of your own, "
						   "earlier ones first"),
				  false);
}

int policy_schema(struct node **ret_node)
{
	_cleanup_(node_freep) struct node *document = schema_document("brig policy");
	struct node *properties = schema_properties(document);
	int r = document ? schema_header(document) : -ENOMEM;

	for (size_t i = 0; i < policy_key_count && r == 0; i++) {
		struct node *section = schema_section(properties, policy_keys[i].name);

		r = section ? schema_key(section, &policy_keys[i]) : -ENOMEM;
	}
	if (r == 0)
		*ret_node = take_ptr(&document);
	return r;
}
