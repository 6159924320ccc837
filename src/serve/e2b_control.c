/* e2b_control.c - the control plane as the field's clients know it: which path is whose */
#include "serve/e2b_control.h"

static void control_health(struct request *q)
{
	answer_empty(q, 204);
}

/* The key is in no answer: it is not kept, only its hash is. */
static void control_teams(struct request *q)
{
	_cleanup_(node_freep) struct node *teams = node_list(), *team = node_map();
	int r = teams && team ? node_set(team, "teamID", node_string(q->tenant_name)) : -1;

	r = r < 0 ? r : node_set(team, "name", node_string(q->tenant_name));
	r = r < 0 ? r : node_set(team, "apiKey", node_string(q->key.shown));
	r = r < 0 ? r : node_set(team, "isDefault", node_bool(true));
	r = r < 0 ? r : node_add(teams, take_ptr(&team));
	answer_json(q, 200, r < 0 ? NULL : teams);
}

/* clang-format off */
#define ROW(verb, where, who)  .method = METHOD_##verb, .path = (where), .need = NEED_KEY, .handle = (who)
#define TAKES_BODY             .body = SERVE_JSON_MAX
#define MAY_TAKE_BODY          .body = SERVE_JSON_MAX, .body_is_optional = true

/* A word stands before the braces that would match it. */
const struct route control_routes[] = {
	{ .method = METHOD_GET, .path = "/health", .need = NEED_NOTHING, .handle = control_health, .is_quiet = true },
	{ ROW(GET, "/teams", control_teams) },

	{ ROW(POST, "/sandboxes", control_create), TAKES_BODY },
	{ ROW(POST, "/v2/sandboxes", control_create_v2), TAKES_BODY },
	{ ROW(GET, "/sandboxes", control_list) },
	{ ROW(GET, "/v2/sandboxes", control_list_v2) },
	{ ROW(GET, "/sandboxes/metrics", control_metrics_many) },

	{ ROW(GET, "/sandboxes/{id}", control_info) },
	{ ROW(DELETE, "/sandboxes/{id}", control_kill) },
	{ ROW(POST, "/sandboxes/{id}/connect", control_connect), TAKES_BODY },
	{ ROW(POST, "/v2/sandboxes/{id}/connect", control_connect_v2), MAY_TAKE_BODY },
	{ ROW(POST, "/sandboxes/{id}/timeout", control_timeout), TAKES_BODY },
	{ ROW(POST, "/sandboxes/{id}/refreshes", control_refresh), MAY_TAKE_BODY },
	{ ROW(POST, "/sandboxes/{id}/pause", control_pause), MAY_TAKE_BODY },
	{ ROW(POST, "/sandboxes/{id}/resume", control_resume), MAY_TAKE_BODY },
	{ ROW(PUT, "/sandboxes/{id}/network", control_network), TAKES_BODY },
	{ ROW(POST, "/sandboxes/{id}/fork", control_fork), MAY_TAKE_BODY },
	{ ROW(POST, "/sandboxes/{id}/snapshots", control_snapshot), MAY_TAKE_BODY },
	{ ROW(GET, "/sandboxes/{id}/metrics", control_metrics) },
	{ ROW(GET, "/sandboxes/{id}/logs", control_logs) },
	{ ROW(GET, "/v2/sandboxes/{id}/logs", control_logs_v2) },

	{ ROW(GET, "/snapshots", control_snapshots) },
	{ 0 },
};
/* clang-format on */
