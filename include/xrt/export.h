// SPDX-License-Identifier: Apache-2.0
// Marks what libxrt exports; everything else has hidden visibility.
#pragma once

#define XRT_API __attribute__((visibility("default")))
