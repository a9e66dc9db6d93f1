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

/// Whether all ranks bring as many rows to an all-gather, so that the number is agreed on.
enum class RowsOf : uint8_t { kAny, kSame };

/// Fills the rows of a tensor in an exchange: the numbers for each rank, and the memory for arriving rows. Its request
/// and input have been filled before. `output` is null if the caller gave none. Returns kInvalidArgument for a tensor
/// without dimension 0, wrong splits, or an output that differs in kind or overlaps the input; only of equal parts of
/// an all-gather the input may lie in the output, at its own part.
Status fill_exchange(TensorPart& tensor, const OperationCall& call, SetPlace set, size_t index,
                     const CheckedTensor& input, const CheckedTensor* output, RowsOf rows_of_all);

}  // namespace rueda::core
