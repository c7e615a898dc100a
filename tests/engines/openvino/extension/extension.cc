// SPDX-License-Identifier: Apache-2.0
// A library of OpenVINO extensions with two ops of the domain test.extension: Scale, an op with
// code of its own, and Twice, which is made of OpenVINO's.
#include <memory>
#include <openvino/core/extension.hpp>
#include <openvino/core/op_extension.hpp>
#include <openvino/frontend/onnx/extension/op.hpp>
#include <openvino/op/add.hpp>
#include <openvino/op/op.hpp>
#include <vector>

namespace {

constexpr const char* kDomain = "test.extension";

class Scale : public ov::op::Op {
 public:
  OPENVINO_OP("Scale", "test");
  Scale() = default;
  Scale(const ov::Output<ov::Node>& x, float by) : Op({x}), by_(by) {
    constructor_validate_and_infer_types();
  }
  void validate_and_infer_types() override {
    set_output_type(0, get_input_element_type(0), get_input_partial_shape(0));
  }
  std::shared_ptr<ov::Node> clone_with_new_inputs(const ov::OutputVector& inputs) const override {
    return std::make_shared<Scale>(inputs.at(0), by_);
  }
  bool visit_attributes(ov::AttributeVisitor& visitor) override {
    visitor.on_attribute("by", by_);
    return true;
  }
  bool evaluate(ov::TensorVector& outputs, const ov::TensorVector& inputs) const override {
    outputs[0].set_shape(inputs[0].get_shape());
    const auto* x = inputs[0].data<const float>();
    auto* y = outputs[0].data<float>();
    for (std::size_t i = 0; i < inputs[0].get_size(); ++i) y[i] = by_ * x[i];
    return true;
  }
  bool has_evaluate() const override { return get_input_element_type(0) == ov::element::f32; }

 private:
  float by_ = 1.0F;
};

ov::OutputVector twice(const ov::frontend::NodeContext& node) {
  const ov::Output<ov::Node> x = node.get_input(0);
  return {std::make_shared<ov::op::v1::Add>(x, x)};
}

}  // namespace

OPENVINO_CREATE_EXTENSIONS(std::vector<ov::Extension::Ptr>(
    {std::make_shared<ov::OpExtension<Scale>>(),
     std::make_shared<ov::frontend::onnx::OpExtension<Scale>>("Scale", kDomain),
     std::make_shared<ov::frontend::onnx::ConversionExtension>("Twice", kDomain, twice)}));
