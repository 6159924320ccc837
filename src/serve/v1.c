/* v1.c - brig's own API: the rows. What each takes and gives is in v1_docs.c and v1_docs_more.c */
#include "serve/v1.h"

#define ROW(method_name, path_text, need_of, doc_of, ...)                               \
	{                                                                               \
		.method = METHOD_##method_name, .path = (path_text), .need = (need_of), \
		.handle = openapi_handle, .doc = &v1_doc_##doc_of, __VA_ARGS__          \
	}
#define JSON       .body = SERVE_JSON_MAX
#define MAYBE_JSON .body = SERVE_JSON_MAX, .body_is_optional = true
#define SANDBOX    "/v1/sandboxes/{id}"

const struct route v1_routes[] = {
	ROW(POST, "/v1/run", NEED_KEY, run, JSON),
	ROW(GET, "/v1/sandboxes", NEED_KEY, list, .is_quiet = true),
	ROW(POST, "/v1/sandboxes", NEED_KEY, create, MAYBE_JSON),
	ROW(GET, SANDBOX, NEED_KEY, get, .is_quiet = true),
	ROW(PATCH, SANDBOX, NEED_KEY, change, JSON),
	ROW(DELETE, SANDBOX, NEED_KEY, delete),
	ROW(POST, SANDBOX "/pause", NEED_KEY, pause),
	ROW(POST, SANDBOX "/resume", NEED_KEY, resume, MAYBE_JSON),
	ROW(POST, SANDBOX "/exec", NEED_KEY, exec, JSON),
	ROW(GET, SANDBOX "/terminal", NEED_KEY, terminal),
	ROW(GET, SANDBOX "/processes", NEED_KEY, processes, .is_quiet = true),
	ROW(POST, SANDBOX "/processes/{number}/signal", NEED_KEY, signal, MAYBE_JSON),
	ROW(GET, SANDBOX "/files", NEED_KEY, read_file),
	ROW(PUT, SANDBOX "/files", NEED_KEY, write_file, .streams = true),
	ROW(DELETE, SANDBOX "/files", NEED_KEY, remove_file),
	ROW(GET, SANDBOX "/report", NEED_KEY, report),
	ROW(GET, SANDBOX "/events", NEED_KEY, events, .is_quiet = true),
	ROW(GET, "/v1/policies", NEED_KEY, policies),
	ROW(GET, "/v1/policies/{name}", NEED_KEY, policy),
	ROW(GET, "/v1/keys", NEED_ADMIN, keys),
	ROW(POST, "/v1/keys", NEED_ADMIN, make_key, MAYBE_JSON),
	ROW(DELETE, "/v1/keys/{key}", NEED_ADMIN, revoke_key),
	ROW(GET, "/v1/host", NEED_KEY, host),
	ROW(GET, "/v1/health", NEED_NOTHING, health, .is_quiet = true),
	ROW(GET, "/v1/ready", NEED_NOTHING, ready, .is_quiet = true),
	ROW(GET, "/v1/openapi.json", NEED_NOTHING, openapi),
	ROW(GET, "/metrics", NEED_ADMIN, metrics, .is_quiet = true),
	{ 0 },
};
