// Finds TensorFlow's C API in the process instead of linking it, so that one binary serves every version. The library
// is opened with RTLD_NOLOAD: a second TensorFlow of another place must not come in beside the one that Python uses.
// First comes the list of functions, one line each, then the search.
#include "bindings/tensorflow/tensorflow_api.h"

#include <dlfcn.h>

namespace rueda::tensorflow {
namespace {

constexpr const char* kFramework = "libtensorflow_framework.so.2";

Api loaded{};

/// Looks functions up and remembers the first that is missing.
class Search {
 public:
  explicit Search(void* framework) : framework_(framework) {}

  template <typename Function>
  void find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(framework_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* framework_;
  std::string missing_;
};

void find_ops(Search& search, Api& api) {
  search.find("TF_NewStatus", api.NewStatus);
  search.find("TF_DeleteStatus", api.DeleteStatus);
  search.find("TF_SetStatus", api.SetStatus);
  search.find("TF_GetCode", api.GetCode);
  search.find("TF_Message", api.Message);
  search.find("TF_NewOpDefinitionBuilder", api.NewOpDefinitionBuilder);
  search.find("TF_OpDefinitionBuilderAddAttr", api.OpDefinitionBuilderAddAttr);
  search.find("TF_OpDefinitionBuilderAddInput", api.OpDefinitionBuilderAddInput);
  search.find("TF_OpDefinitionBuilderAddOutput", api.OpDefinitionBuilderAddOutput);
  search.find("TF_OpDefinitionBuilderSetIsStateful", api.OpDefinitionBuilderSetIsStateful);
  search.find("TF_OpDefinitionBuilderSetShapeInferenceFunction", api.OpDefinitionBuilderSetShapeInferenceFunction);
  search.find("TF_RegisterOpDefinition", api.RegisterOpDefinition);
  search.find("TF_NewShapeHandle", api.NewShapeHandle);
  search.find("TF_DeleteShapeHandle", api.DeleteShapeHandle);
  search.find("TF_ShapeInferenceContextNumInputs", api.ShapeInferenceContextNumInputs);
  search.find("TF_ShapeInferenceContextGetInput", api.ShapeInferenceContextGetInput);
  search.find("TF_ShapeInferenceContextSetOutput", api.ShapeInferenceContextSetOutput);
  search.find("TF_ShapeInferenceContextScalar", api.ShapeInferenceContextScalar);
  search.find("TF_ShapeInferenceContextVectorFromSize", api.ShapeInferenceContextVectorFromSize);
  search.find("TF_ShapeInferenceContextSubshape", api.ShapeInferenceContextSubshape);
  search.find("TF_ShapeInferenceContextConcatenateShapes", api.ShapeInferenceContextConcatenateShapes);
}

void find_kernels(Search& search, Api& api) {
  search.find("TF_NewAsyncKernelBuilder", api.NewAsyncKernelBuilder);
  search.find("TF_KernelBuilder_HostMemory", api.KernelBuilder_HostMemory);
  search.find("TF_RegisterKernelBuilder", api.RegisterKernelBuilder);
  search.find("TF_RunAsyncOpKernelDoneCallback", api.RunAsyncOpKernelDoneCallback);
  search.find("TF_OpKernelConstruction_GetAttrInt64", api.OpKernelConstruction_GetAttrInt64);
  search.find("TF_OpKernelConstruction_GetAttrString", api.OpKernelConstruction_GetAttrString);
  search.find("TF_OpKernelConstruction_GetAttrStringList", api.OpKernelConstruction_GetAttrStringList);
  search.find("TF_OpKernelConstruction_GetAttrSize", api.OpKernelConstruction_GetAttrSize);
  search.find("TF_OpKernelConstruction_Failure", api.OpKernelConstruction_Failure);
  search.find("TF_NumInputs", api.NumInputs);
  search.find("TF_GetInput", api.GetInput);
  search.find("TF_AllocateOutput", api.AllocateOutput);
  search.find("TF_ForwardInputOrAllocateOutput", api.ForwardInputOrAllocateOutput);
  search.find("TF_OpKernelContext_Failure", api.OpKernelContext_Failure);
  search.find("TF_TensorType", api.TensorType);
  search.find("TF_NumDims", api.NumDims);
  search.find("TF_Dim", api.Dim);
  search.find("TF_TensorByteSize", api.TensorByteSize);
  search.find("TF_TensorData", api.TensorData);
  search.find("TF_DeleteTensor", api.DeleteTensor);
}

}  // namespace

const Api& api() { return loaded; }

std::string load_api() {
  void* const framework = dlopen(kFramework, RTLD_NOLOAD | RTLD_LAZY);
  if (framework == nullptr) {
    return std::string("this process has not loaded ") + kFramework + "; import tensorflow first";
  }
  Search search(framework);
  find_ops(search, loaded);
  find_kernels(search, loaded);
  if (search.missing().empty()) return {};
  return "this TensorFlow has no function " + search.missing() + "; Rueda needs TensorFlow 2.13 or newer";
}

}  // namespace rueda::tensorflow
