// A shape that is unknown while TensorFlow traces stays unknown here, and the kernel reads the real one. A shape with a
// known rank gives an output with the same rank, so that layers behind it can be built.
#include "bindings/tensorflow/shapes.h"

namespace rueda::tensorflow {
namespace {

/// A shape handle that is deleted at the end of the scope.
class Shape {
 public:
  Shape() : handle_(api().NewShapeHandle()) {}
  explicit Shape(TF_ShapeHandle* handle) : handle_(handle) {}
  ~Shape() { api().DeleteShapeHandle(handle_); }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;
  TF_ShapeHandle* get() const { return handle_; }

 private:
  TF_ShapeHandle* handle_;
};

bool good(const TF_Status* status) { return api().GetCode(status) == TfCode::kOk; }

/// -1 is TensorFlow's number for an unknown extent.
TF_ShapeHandle* unknown_vector(TF_ShapeInferenceContext* context) {
  return api().ShapeInferenceContextVectorFromSize(context, static_cast<size_t>(-1));
}

void infer_rows_of(TF_ShapeInferenceContext* context, int index, TF_Status* status) {
  const Shape input, rest, output;
  const Shape rows(unknown_vector(context));
  constexpr int64_t kToTheEnd = INT64_MAX;
  api().ShapeInferenceContextGetInput(context, index, input.get(), status);
  if (good(status)) {
    api().ShapeInferenceContextSubshape(context, input.get(), 1, kToTheEnd, rest.get(), status);
  }
  if (good(status)) {
    api().ShapeInferenceContextConcatenateShapes(context, rows.get(), rest.get(), output.get(), status);
  }
  if (good(status)) api().ShapeInferenceContextSetOutput(context, index, output.get(), status);
}

/// All inputs but the last, which is the epoch.
int tensors(TF_ShapeInferenceContext* context) {
  return static_cast<int>(api().ShapeInferenceContextNumInputs(context)) - 1;
}

}  // namespace

void infer_same(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shape shape;
  for (int index = 0; index < tensors(context) && good(status); ++index) {
    api().ShapeInferenceContextGetInput(context, index, shape.get(), status);
    if (good(status)) api().ShapeInferenceContextSetOutput(context, index, shape.get(), status);
  }
}

void infer_rows(TF_ShapeInferenceContext* context, TF_Status* status) {
  for (int index = 0; index < tensors(context) && good(status); ++index) infer_rows_of(context, index, status);
}

void infer_alltoall(TF_ShapeInferenceContext* context, TF_Status* status) {
  infer_rows_of(context, 0, status);
  const Shape counts(unknown_vector(context));
  if (good(status)) api().ShapeInferenceContextSetOutput(context, 1, counts.get(), status);
}

void infer_scalar(TF_ShapeInferenceContext* context, TF_Status* status) {
  const Shape scalar(api().ShapeInferenceContextScalar(context));
  api().ShapeInferenceContextSetOutput(context, 0, scalar.get(), status);
}

}  // namespace rueda::tensorflow
