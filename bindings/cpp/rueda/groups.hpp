#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rueda/group_arrays.hpp"
#include "rueda/session.hpp"

namespace rueda {

/// Groups of operations. A group is accepted whole or not at all, moves together, and has one handle, which fails with
/// the first failure of any tensor. The options apply to all tensors. Tensor i is named `names[i]`, or "<name>.<i>" if
/// `names` is empty. Its output goes to `outputs[i]`; if `outputs` is empty it goes to memory of `options.allocate`, or
/// of the library until the handle is destroyed, and `Handle::output(i)` returns it. Received splits are concatenated
/// in the order of tensors. InvalidArgument also: `names`, `outputs` or `splits` is neither empty nor as long as the
/// group. Other errors, and the loan of memory, are those of the single forms.

namespace detail {

inline size_t members_of(const Session& session, int32_t set) {
  const int32_t members = rueda_process_set_size(session.c_session(), set);
  if (members < 0) check(rueda_last_error_code());
  return static_cast<size_t>(members);
}

}  // namespace detail

/// Out of place. `Session::grouped_allreduce_async` works in place.
inline Handle grouped_allreduce_async(const Session& session, std::span<const ConstTensor> inputs,
                                      std::span<const Tensor> outputs, const AllreduceOptions& options = {},
                                      std::span<const std::string> names = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_allreduce_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                         group.names(), static_cast<int32_t>(options.op), c, handle);
  });
}

inline Handle grouped_broadcast_async(const Session& session, std::span<const ConstTensor> inputs,
                                      std::span<const Tensor> outputs, const BroadcastOptions& options = {},
                                      std::span<const std::string> names = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_broadcast_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                         group.names(), options.root, c, handle);
  });
}

/// In place.
inline Handle grouped_broadcast_async(const Session& session, std::span<const Tensor> tensors,
                                      const BroadcastOptions& options = {}, std::span<const std::string> names = {}) {
  const detail::CGroup group(tensors, tensors, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_broadcast_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                         group.names(), options.root, c, handle);
  });
}

inline Handle grouped_reducescatter_async(const Session& session, std::span<const ConstTensor> inputs,
                                          const AllreduceOptions& options = {}, std::span<const std::string> names = {},
                                          std::span<const Tensor> outputs = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reducescatter_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                             group.names(), static_cast<int32_t>(options.op), c, handle);
  });
}

/// `outputs` is used on `root` and ignored on the other ranks.
inline Handle grouped_reduce_async(const Session& session, std::span<const ConstTensor> inputs,
                                   std::span<const Tensor> outputs, int32_t root, const AllreduceOptions& options = {},
                                   std::span<const std::string> names = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reduce_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), static_cast<int32_t>(options.op), root, c, handle);
  });
}

/// In place on `root`; on the other ranks the tensors are only read.
inline Handle grouped_reduce_async(const Session& session, std::span<const Tensor> tensors, int32_t root,
                                   const AllreduceOptions& options = {}, std::span<const std::string> names = {}) {
  const detail::CGroup group(tensors, tensors, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reduce_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), static_cast<int32_t>(options.op), root, c, handle);
  });
}

/// `Session` has the form without names and outputs.
inline Handle grouped_allgather_async(const Session& session, std::span<const ConstTensor> inputs,
                                      const ExchangeOptions& options = {}, std::span<const std::string> names = {},
                                      std::span<const Tensor> outputs = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_allgather_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                         group.names(), c, handle);
  });
}

inline Handle grouped_alltoall_async(const Session& session, std::span<const ConstTensor> inputs,
                                     std::span<const std::vector<int64_t>> splits = {},
                                     const ExchangeOptions& options = {}, std::span<const std::string> names = {},
                                     std::span<const Tensor> outputs = {}) {
  const detail::CSplits dealt(splits, inputs.size(), detail::members_of(session, options.process_set));
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_alltoall_async(session.c_session(), group.count(), group.inputs(), dealt.data(),
                                        group.outputs(), group.names(), c, handle);
  });
}

/// `outputs` is used on `root` and ignored on the other ranks.
inline Handle grouped_gather_async(const Session& session, std::span<const ConstTensor> inputs, int32_t root,
                                   const ExchangeOptions& options = {}, std::span<const std::string> names = {},
                                   std::span<const Tensor> outputs = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_gather_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), root, c, handle);
  });
}

/// On ranks other than `root` only the dtypes and row shapes of the inputs are read, and the splits are ignored.
inline Handle grouped_scatter_async(const Session& session, std::span<const ConstTensor> inputs, int32_t root,
                                    std::span<const std::vector<int64_t>> splits = {},
                                    const ExchangeOptions& options = {}, std::span<const std::string> names = {},
                                    std::span<const Tensor> outputs = {}) {
  const bool deals = session.rank() == root;
  const detail::CSplits dealt(deals ? splits : std::span<const std::vector<int64_t>>(), inputs.size(),
                              detail::members_of(session, options.process_set));
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_scatter_async(session.c_session(), group.count(), group.inputs(), dealt.data(),
                                       group.outputs(), group.names(), root, c, handle);
  });
}

inline Handle grouped_send_async(const Session& session, std::span<const ConstTensor> inputs, int32_t peer,
                                 const ExchangeOptions& options = {}, std::span<const std::string> names = {}) {
  const detail::CGroup group(inputs, {}, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_send_async(session.c_session(), group.count(), group.inputs(), group.names(), peer, c, handle);
  });
}

inline Handle grouped_recv_async(const Session& session, std::span<const Tensor> outputs, int32_t peer,
                                 const ExchangeOptions& options = {}, std::span<const std::string> names = {}) {
  const detail::CGroup group(outputs, {}, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_recv_async(session.c_session(), group.count(), group.inputs(), group.names(), peer, c, handle);
  });
}

}  // namespace rueda
