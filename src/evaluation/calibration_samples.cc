// SPDX-License-Identifier: Apache-2.0
#include "evaluation/calibration_samples.h"

#include <fmt/format.h>

#include <memory>

#include "base/interrupt.h"
#include "data/samples.h"
#include "xrt/error.h"

namespace xrt {

SampleSource calibration_samples(const LabelledSet& set, const BatchOptions& options,
                                 std::size_t count) {
  return [&set, options, count](const std::vector<Port>& inputs, const UseSample& use) {
    BatchOptions own = options;
    own.batch = 0;
    own.limit = count;
    BatchLoader loader(set, inputs, own);
    while (const Batch* batch = loader.next()) {
      throw_if_interrupted();
      std::vector<Tensor> values;
      for (const Data& input : batch->inputs) {
        if (input.is_none()) {
          throw Error(ErrorCode::kInvalidArgument,
                      "calibration needs a value for each input, and the samples lack one");
        }
        values.push_back(input.tensor());
      }
      try {
        use(values);
      } catch (const Error& error) {
        throw Error(error.code(), fmt::format("{}: {}", set.place(batch->first), error.what()));
      }
    }
  };
}

SampleSource calibration_samples(const LabelledSource& source, const BatchOptions& options,
                                 std::size_t count) {
  return [source, options, count](const std::vector<Port>& inputs, const UseSample& use) {
    if (source.format == "auto" && holds_samples(source.path, inputs)) {
      return for_each_sample({source.path, options.preparation.image, count}, inputs, use);
    }
    LabelledSource unlabelled = source;
    unlabelled.without_labels = true;
    const std::unique_ptr<LabelledSet> set = open_labelled_set(unlabelled);
    calibration_samples(*set, options, count)(inputs, use);
  };
}

}  // namespace xrt
