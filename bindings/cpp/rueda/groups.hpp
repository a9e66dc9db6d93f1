#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rueda/group_arrays.hpp"
#include "rueda/session.hpp"

namespace rueda {

/// Groups of operations: accepted whole or not at all, moved together, one handle, which fails with the first failure
/// of any member. Options are those of all members. Member i is named `names[i]`, or "<name>.<i>" where `names` is
/// empty. Its output goes to `outputs[i]`; where `outputs` is empty to memory of `options.allocate`, or of the
/// library's until the handle goes, and is found as `Handle::output(i)`. Received splits come one member's after the
/// other's. InvalidArgument also where `names`, `outputs` or `splits` is of another length than the group, and not
/// empty. Other errors and loans are those of the single forms.

namespace detail {

inline size_t members_of(const Session& session, int32_t set) {
  const int32_t members = rueda_process_set_size(session.c_session(), set);
  if (members < 0) check(rueda_last_error_code());
  return static_cast<size_t>(members);
}

}  // namespace detail

/// Out of place; in place it is `Session::grouped_allreduce_async`.
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

/// Outputs are for `root`; elsewhere they are not looked at.
inline Handle grouped_reduce_async(const Session& session, std::span<const ConstTensor> inputs,
                                   std::span<const Tensor> outputs, int32_t root, const AllreduceOptions& options = {},
                                   std::span<const std::string> names = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reduce_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), static_cast<int32_t>(options.op), root, c, handle);
  });
}

/// In place on `root`; elsewhere the tensors are only read.
inline Handle grouped_reduce_async(const Session& session, std::span<const Tensor> tensors, int32_t root,
                                   const AllreduceOptions& options = {}, std::span<const std::string> names = {}) {
  const detail::CGroup group(tensors, tensors, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reduce_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), static_cast<int32_t>(options.op), root, c, handle);
  });
}

/// `Session` has it without names and outputs.
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

/// Outputs are for `root`; elsewhere they are not looked at.
inline Handle grouped_gather_async(const Session& session, std::span<const ConstTensor> inputs, int32_t root,
                                   const ExchangeOptions& options = {}, std::span<const std::string> names = {},
                                   std::span<const Tensor> outputs = {}) {
  const detail::CGroup group(inputs, outputs, names);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_gather_async(session.c_session(), group.count(), group.inputs(), group.outputs(),
                                      group.names(), root, c, handle);
  });
}

/// Elsewhere than on `root` the inputs are looked at for their dtypes and the shapes of their rows only, the splits not
/// at all.
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
