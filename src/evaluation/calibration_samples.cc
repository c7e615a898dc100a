// SPDX-License-Identifier: Apache-2.0
#include "evaluation/calibration_samples.h"

#include "xrt/error.h"

namespace xrt {

SampleSource calibration_samples(const LabelledSet& set, const BatchOptions& options,
                                 std::size_t count) {
  return [&set, options, count](const std::vector<Port>& inputs, const auto& use) {
    BatchOptions own = options;
    own.batch = 0;
    own.limit = count;
    BatchLoader loader(set, inputs, own);
    while (const Batch* batch = loader.next()) {
      std::vector<Tensor> values;
      for (const Data& input : batch->inputs) {
        if (input.is_none()) {
          throw Error(ErrorCode::kInvalidArgument,
                      "calibration needs a value for each input, and the samples lack one");
        }
        values.push_back(input.tensor());
      }
      use(values);
    }
  };
}

}  // namespace xrt
