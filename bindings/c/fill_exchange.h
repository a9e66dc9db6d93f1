#pragma once
#include "bindings/c/build_operation.h"
#include "bindings/c/check_tensor.h"

namespace rueda::core {

/// The number of ranks in the process set of a call, and the position of this rank in their order.
struct SetPlace {
  int size = 1;
  int place = 0;
  int rank = 0;  ///< this rank, in the job
};

/// Fills the rows of a tensor in an exchange: the numbers for each rank, and the memory for arriving rows. Its request
/// and input have been filled before. `output` is null if the caller gave none. Returns kInvalidArgument for a tensor
/// without dimension 0, wrong splits, or an output that differs in kind or overlaps the input.
Status fill_exchange(TensorPart& tensor, const OperationCall& call, SetPlace set, size_t index,
                     const CheckedTensor& input, const CheckedTensor* output);

}  // namespace rueda::core
