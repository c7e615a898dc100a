// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "xrt/onnx.h"  // export_onnx, export_onnx_file
