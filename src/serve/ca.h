/*
 * ca.h - a certificate authority of this machine's own, for "brig serve --tls" without a certificate
 *
 *	serve/ca.pem, ca.key		made once, 10 years; clients are told to trust ca.pem
 *	serve/tls.pem, tls.key		for the domain and all names one level below it, 90 days; made anew when
 *					a third of that is left, or the domain is another
 *
 * In the state directory, readable by its owner alone. The CA is limited to the domain that it was made for
 * (name constraints): who trusts it does not trust whoever has its key with other names.
 */
#ifndef BRIG_SERVE_CA_H
#define BRIG_SERVE_CA_H

#include <limits.h>

#include "base/err.h"

struct ca_files {
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
};

/* Makes what is missing. dir: the daemon's folder, by path. domain: without a port. */
[[nodiscard]] int ca_ready(const char *dir, const char *domain, struct ca_files *ret_files,
			   struct err *err);

#endif
