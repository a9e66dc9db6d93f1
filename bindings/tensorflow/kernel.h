#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/tensorflow/tensorflow_api.h"

namespace rueda::tensorflow {

/// What an op does. kEpoch and kQuery involve no other rank.
enum class Kind { kAllreduce, kBroadcast, kAllgather, kReducescatter, kAlltoall, kJoin, kEpoch, kQuery };

/// The attributes of one op, read when TensorFlow makes its kernel. Constant afterwards.
struct Kernel {
  Kind kind = Kind::kEpoch;
  std::vector<std::string> names;  // one for each tensor; the first is empty if the operation has no name
  int32_t process_set = 0;
  int32_t reduce_op = 0;
  int32_t codec = 0;
  double prescale = 1;
  double postscale = 1;
  int32_t root = 0;
  int64_t question = 0;  // kQuery: a Question
};

/// What a kQuery op answers.
enum class Question : int64_t { kRank, kSize, kLocalRank, kLocalSize, kSetSize, kIncluded, kSetRank };

/// Reads the attributes that ops of this kind have. If one of them cannot be read, TensorFlow is told of the failure.
/// Returns a kernel in each case; TensorFlow deletes it with destroy_kernel().
Kernel* create_kernel(Kind kind, TF_OpKernelConstruction* construction);
void destroy_kernel(void* kernel);

/// Runs one op. `done` is called once, on this thread or on the completer's thread of the session, after the output has
/// been made or the failure told. Blocks only if callbacks cannot be copied (done.h).
void compute(void* kernel, TF_OpKernelContext* context, TF_AsyncOpKernelDoneCallback* done);

}  // namespace rueda::tensorflow
