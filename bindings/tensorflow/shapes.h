#pragma once
#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {

/// Shape functions, which TensorFlow calls while it traces. Each output ...
/// ... has the shape of its input.
void infer_same(TF_ShapeInferenceContext* context, TF_Status* status);
/// ... has the shape of its input but for an unknown number of rows.
void infer_rows(TF_ShapeInferenceContext* context, TF_Status* status);
/// ... is that of an all-to-all: rows, and a vector of counts.
void infer_alltoall(TF_ShapeInferenceContext* context, TF_Status* status);
/// ... has no dimensions.
void infer_scalar(TF_ShapeInferenceContext* context, TF_Status* status);

}  // namespace rueda::tensorflow
