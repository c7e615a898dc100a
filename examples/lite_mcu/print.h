/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRINT_H_
#define PRINT_H_

#include <stdint.h>
#include <string.h>

void print_text(const char* text); /* semihosting.c on the board, stdio on a desktop */

static inline void print_number(int n) {
  char text[12];
  char* p = text + 11;
  *p = 0;
  do {
    *--p = (char)('0' + n % 10);
    n /= 10;
  } while (n > 0);
  print_text(p);
}

static inline void print_bits(float value) {
  uint32_t bits;
  char text[9] = {0};
  memcpy(&bits, &value, 4);
  for (int i = 7; i >= 0; --i, bits >>= 4) text[i] = "0123456789abcdef"[bits & 15];
  print_text(text);
}

#endif
