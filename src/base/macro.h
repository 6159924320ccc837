/*
 * macro.h - the few macros that every file may use
 *
 * Cleanup attributes release a variable when it goes out of scope; take_fd() and take_ptr() (fd.h,
 * below) hand the value to a new owner and leave the variable empty, so that nothing is released
 * twice:
 *
 *	_cleanup_close_ int fd = -EBADF;
 *	fd = open(path, O_RDONLY | O_CLOEXEC);
 *	...
 *	*ret_fd = take_fd(&fd);
 */
#ifndef BRIG_BASE_MACRO_H
#define BRIG_BASE_MACRO_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

#define _cleanup_(f)      __attribute__((cleanup(f)))
#define _printf_(fmt, va) __attribute__((format(printf, fmt, va)))

static inline void free_ptr(void *p)
{
	free(*(void **)p);
}
#define _cleanup_free_ _cleanup_(free_ptr)

/* Hands a pointer over: the value of *p, with *p left NULL. */
#define take_ptr(p)                       \
	({                                \
		__typeof__(p) _p = (p);   \
		__typeof__(*_p) _v = *_p; \
		*_p = NULL;               \
		_v;                       \
	})

#define MIN(a, b)                       \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a < _b ? _a : _b;      \
	})
#define MAX(a, b)                       \
	({                              \
		__typeof__(a) _a = (a); \
		__typeof__(b) _b = (b); \
		_a > _b ? _a : _b;      \
	})

#endif
