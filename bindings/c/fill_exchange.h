#pragma once
#include "bindings/c/build_operation.h"
#include "bindings/c/check_tensor.h"

namespace rueda::core {

/// How many ranks the process set of a call has, and where this one comes in their order.
struct SetPlace {
  int size = 1;
  int place = 0;
  int rank = 0;  ///< this rank, in the job
};

/// Fills a tensor of an operation that exchanges rows, whose request and input have been filled: the rows for each
/// rank, and where the rows of the others may go. `output` is null where the caller gave none. kInvalidArgument: no
/// dimension 0, splits, an output of another kind or one that overlaps the input.
Status fill_exchange(TensorPart& tensor, const OperationCall& call, SetPlace set, size_t index,
                     const CheckedTensor& input, const CheckedTensor* output);

}  // namespace rueda::core
