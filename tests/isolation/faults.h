// SPDX-License-Identifier: Apache-2.0
// What tests can have the faulty engine do.
#pragma once

namespace faults {

enum Fault {
  kNone = 0,
  kAbort = 1001,
  kSegv,
  kExit,
  kHang,
  kLeak,
  kThrow,
  kShape,    // an output of another shape
  kNetwork,  // throws what comes of asking for a socket
  kPatient,  // waits until its run is cancelled
  // These throw what comes of trying it on the process that started the worker.
  kMemory,      // to open its memory
  kSignal,      // to signal it
  kDescriptor,  // to take one of its descriptors
};

}  // namespace faults
