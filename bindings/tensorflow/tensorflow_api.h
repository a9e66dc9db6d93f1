#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

// Types of TensorFlow's C API, which are opaque there too.
struct TF_Status;
struct TF_Tensor;
struct TF_OpDefinitionBuilder;
struct TF_ShapeHandle;
struct TF_ShapeInferenceContext;
struct TF_KernelBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_AsyncOpKernelDoneCallback;

namespace rueda::tensorflow {

/// Codes of TF_Status. TensorFlow raises an exception of its own for each.
enum class TfCode : int32_t {
  kOk = 0,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kInternal = 13,
};

/// Element types of TensorFlow that the library can be given. kInt32 and kInt64 are also outputs of our own.
enum class TfType : int32_t {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kUint32 = 22,
  kUint64 = 23,
};

using CreateKernel = void* (*)(TF_OpKernelConstruction*);
using ComputeAsync = void (*)(void*, TF_OpKernelContext*, TF_AsyncOpKernelDoneCallback*);
using DeleteKernel = void (*)(void*);
using InferShapes = void (*)(TF_ShapeInferenceContext*, TF_Status*);

/// The functions of TensorFlow's C API that the library calls, by their names without "TF_". Filled once, before any
/// op exists, and only read afterwards, on any thread.
struct Api {
  TF_Status* (*NewStatus)();
  void (*DeleteStatus)(TF_Status*);
  void (*SetStatus)(TF_Status*, TfCode, const char*);
  TfCode (*GetCode)(const TF_Status*);
  const char* (*Message)(const TF_Status*);

  TF_OpDefinitionBuilder* (*NewOpDefinitionBuilder)(const char*);
  void (*OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder*, const char*);
  void (*OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder*, const char*);
  void (*OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder*, const char*);
  void (*OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder*, bool);
  void (*OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder*, InferShapes);
  void (*RegisterOpDefinition)(TF_OpDefinitionBuilder*, TF_Status*);

  TF_ShapeHandle* (*NewShapeHandle)();
  void (*DeleteShapeHandle)(TF_ShapeHandle*);
  int64_t (*ShapeInferenceContextNumInputs)(TF_ShapeInferenceContext*);
  void (*ShapeInferenceContextGetInput)(TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*);
  void (*ShapeInferenceContextSetOutput)(TF_ShapeInferenceContext*, int, TF_ShapeHandle*, TF_Status*);
  TF_ShapeHandle* (*ShapeInferenceContextScalar)(TF_ShapeInferenceContext*);
  TF_ShapeHandle* (*ShapeInferenceContextVectorFromSize)(TF_ShapeInferenceContext*, size_t);
  void (*ShapeInferenceContextSubshape)(TF_ShapeInferenceContext*, TF_ShapeHandle*, int64_t, int64_t, TF_ShapeHandle*,
                                        TF_Status*);
  void (*ShapeInferenceContextConcatenateShapes)(TF_ShapeInferenceContext*, TF_ShapeHandle*, TF_ShapeHandle*,
                                                 TF_ShapeHandle*, TF_Status*);

  TF_KernelBuilder* (*NewAsyncKernelBuilder)(const char*, const char*, CreateKernel, ComputeAsync, DeleteKernel);
  void (*KernelBuilder_HostMemory)(TF_KernelBuilder*, const char*);
  void (*RegisterKernelBuilder)(const char*, TF_KernelBuilder*, TF_Status*);
  void (*RunAsyncOpKernelDoneCallback)(TF_AsyncOpKernelDoneCallback*);
  void (*OpKernelConstruction_GetAttrInt64)(TF_OpKernelConstruction*, const char*, int64_t*, TF_Status*);
  void (*OpKernelConstruction_GetAttrString)(TF_OpKernelConstruction*, const char*, char*, size_t, TF_Status*);
  void (*OpKernelConstruction_GetAttrStringList)(TF_OpKernelConstruction*, const char*, char**, size_t*, int, void*,
                                                 size_t, TF_Status*);
  void (*OpKernelConstruction_GetAttrSize)(TF_OpKernelConstruction*, const char*, int32_t*, int32_t*, TF_Status*);
  void (*OpKernelConstruction_Failure)(TF_OpKernelConstruction*, TF_Status*);
  int (*NumInputs)(TF_OpKernelContext*);
  void (*GetInput)(TF_OpKernelContext*, int, TF_Tensor**, TF_Status*);
  TF_Tensor* (*AllocateOutput)(TF_OpKernelContext*, int, TfType, const int64_t*, int, size_t, TF_Status*);
  TF_Tensor* (*ForwardInputOrAllocateOutput)(TF_OpKernelContext*, const int*, int, int, const int64_t*, int, int*,
                                             TF_Status*);
  void (*OpKernelContext_Failure)(TF_OpKernelContext*, TF_Status*);

  TfType (*TensorType)(const TF_Tensor*);
  int (*NumDims)(const TF_Tensor*);
  int64_t (*Dim)(const TF_Tensor*, int);
  size_t (*TensorByteSize)(const TF_Tensor*);
  void* (*TensorData)(const TF_Tensor*);
  void (*DeleteTensor)(TF_Tensor*);
};

/// The table of this process.
const Api& api();

/// Fills the table from the TensorFlow that this process has loaded. Returns an empty string, or the sentence that says
/// what is missing; then no other function of this library may be called.
std::string load_api();

}  // namespace rueda::tensorflow
