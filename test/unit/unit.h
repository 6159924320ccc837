/* unit.h - what every unit test includes: cmocka with the headers that it wants before it */
#ifndef BRIG_TEST_UNIT_H
#define BRIG_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#endif
