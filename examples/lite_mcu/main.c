/* SPDX-License-Identifier: Apache-2.0
 * Recognises digits on a microcontroller: no operating system, no heap. The same file runs on a
 * desktop, and prints the same numbers there, bit for bit. */
#include "digits.h"
#include "pictures.h"
#include "print.h"

static _Alignas(64) unsigned char arena[DIGITS_ARENA_BYTES];

int main(void) {
  int right = 0;
  const int count = (int)(sizeof(digits) / sizeof(digits[0]));
  for (int i = 0; i < count; ++i) {
    static float picture[64], scores[10];
    for (int k = 0; k < 64; ++k) picture[k] = (float)pictures[i][k] * 0.0625f;
    const void* inputs[] = {picture};
    void* outputs[] = {scores};
    if (digits_run(inputs, outputs, arena) != XRT_LITE_OK) {
      print_text("the run failed\n");
      return 1;
    }
    int best = 0;
    for (int k = 1; k < 10; ++k)
      if (scores[k] > scores[best]) best = k;
    print_text("shown ");
    print_number(digits[i]);
    print_text(", read ");
    print_number(best);
    print_text(", score ");
    print_bits(scores[best]);
    print_text("\n");
    right += best == digits[i];
  }
  print_number(right);
  print_text(" of ");
  print_number(count);
  print_text(" right\n");
  return 0;
}
