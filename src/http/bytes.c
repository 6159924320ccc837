#include "http/bytes.h"

#define T BYTE_TOKEN
#define V BYTE_VALUE
#define G BYTE_TARGET
#define H BYTE_HOST

/* clang-format off */
const unsigned char byte_classes[256] = {
	['\t'] = V, [' '] = V,
	['!'] = T | V | G, ['"'] = V | G, ['#'] = T | V, ['$' ... '\''] = T | V | G,
	['(' ... ')'] = V | G, ['*' ... '+'] = T | V | G, [','] = V | G,
	['-' ... '.'] = T | V | G | H, ['/'] = V | G,
	['0' ... '9'] = T | V | G | H, [':'] = V | G | H,
	[';' ... '@'] = V | G,
	['A' ... 'Z'] = T | V | G | H,
	['['] = V | G | H, ['\\'] = V | G, [']'] = V | G | H,
	['^'] = T | V | G, ['_'] = T | V | G | H, ['`'] = T | V | G,
	['a' ... 'z'] = T | V | G | H,
	['{'] = V | G, ['|'] = T | V | G, ['}'] = V | G, ['~'] = T | V | G,
	[0x80 ... 0xff] = V,
};
/* clang-format on */
