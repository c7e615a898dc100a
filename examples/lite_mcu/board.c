/* SPDX-License-Identifier: Apache-2.0
 * Start-up of a Cortex-M, and text through the debugger (Arm semihosting), which QEMU answers. */
#include <stdint.h>

#include "print.h"

extern uint32_t data_source[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];
int main(void);

static int semihosting(int operation, const void* argument) {
  register int r0 __asm__("r0") = operation;
  register const void* r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void print_text(const char* text) { semihosting(0x04, text); } /* SYS_WRITE0 */

static void leave(int status) {
  const uint32_t block[2] = {0x20026, (uint32_t)status}; /* ADP_Stopped_ApplicationExit */
  semihosting(0x20, block);                              /* SYS_EXIT_EXTENDED */
  for (;;) {
  }
}

void reset(void) {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  *(volatile uint32_t*)0xe000ed88u |= 0xf00000u; /* CPACR: floating point and vectors are on */
  __asm__ volatile("dsb\n isb" ::: "memory");
#endif
  const uint32_t* from = data_source;
  for (uint32_t* to = data_begin; to < data_end; ++to) *to = *from++;
  for (uint32_t* to = bss_begin; to < bss_end; ++to) *to = 0;
#ifdef COUNT_TICKS
  volatile uint32_t* timer = (volatile uint32_t*)0xe000e010u; /* SysTick: control, reload, value */
  timer[1] = 0xffffff;
  timer[2] = 0;
  timer[0] = 5; /* on, with the processor's clock */
  const int status = main();
  print_number((int)(0xffffff - timer[2]));
  print_text(" ticks\n");
  leave(status);
#else
  leave(main());
#endif
}

static void fault(void) {
  print_text("fault\n");
  leave(2);
}

__attribute__((section(".vectors"), used)) static const uintptr_t vectors[16] = {
    (uintptr_t)stack_top, (uintptr_t)reset, (uintptr_t)fault, (uintptr_t)fault,
    (uintptr_t)fault,     (uintptr_t)fault, (uintptr_t)fault};
