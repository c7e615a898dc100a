// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "xrt/onnx.h"  // import_onnx, import_onnx_bytes
