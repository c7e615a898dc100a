/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "print.h"

void print_text(const char* text) { fputs(text, stdout); }
