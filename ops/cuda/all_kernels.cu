// What nvcc compiles into the plug-in's one image, and the tests into the stand-in for the driver.
#include "ops/cuda/fold.cu"
#include "ops/cuda/pack.cu"
