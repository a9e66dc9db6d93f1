#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "rueda/session.hpp"

namespace rueda {

/// Groups of the operations that `Session` has one by one: accepted whole or not at all, moved together, one handle,
/// which fails with the first failure of any member. Options are those of all members; member i is named "<name>.<i>".
/// Late outputs are found as `Handle::output(i)`, received splits one member's after the other's. Errors and loans are
/// those of the single forms.

namespace detail {

/// Tensors as rueda.h takes them.
class CTensors {
 public:
  template <typename T>
  explicit CTensors(std::span<const T> tensors) {
    for (const T& tensor : tensors) c_.push_back(tensor.c_tensor());
  }
  size_t count() const { return c_.size(); }
  const rueda_tensor* data() const { return c_.data(); }

 private:
  std::vector<rueda_tensor> c_;
};

/// A list of splits for each of `tensors` tensors; an empty one, or none at all: dealt out evenly.
class CSplits {
 public:
  CSplits(std::span<const std::vector<int64_t>> splits, size_t tensors, size_t members) {
    if (splits.empty()) return;
    if (splits.size() != tensors) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, std::to_string(splits.size()) + " lists of splits for a group of " +
                                                        std::to_string(tensors) + " tensors");
    }
    for (const std::vector<int64_t>& list : splits) {
      if (!list.empty() && list.size() != members) {
        throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                              std::to_string(list.size()) + " splits for " + std::to_string(members) + " ranks");
      }
      lists_.push_back(list.empty() ? nullptr : list.data());
    }
  }
  const int64_t* const* data() const { return lists_.empty() ? nullptr : lists_.data(); }

 private:
  std::vector<const int64_t*> lists_;
};

inline size_t members_of(const Session& session, int32_t set) {
  const int32_t members = rueda_process_set_size(session.c_session(), set);
  if (members < 0) check(rueda_last_error_code());
  return static_cast<size_t>(members);
}

}  // namespace detail

/// In place.
inline Handle grouped_broadcast_async(const Session& session, std::span<const Tensor> tensors,
                                      const BroadcastOptions& options = {}) {
  const detail::CTensors c(tensors);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c_options, rueda_handle* handle) {
    return rueda_grouped_broadcast_async(session.c_session(), c.count(), c.data(), c.data(), nullptr, options.root,
                                         c_options, handle);
  });
}

inline Handle grouped_reducescatter_async(const Session& session, std::span<const ConstTensor> inputs,
                                          const AllreduceOptions& options = {}) {
  const detail::CTensors in(inputs);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_reducescatter_async(session.c_session(), in.count(), in.data(), nullptr, nullptr,
                                             static_cast<int32_t>(options.op), c, handle);
  });
}

/// In place on `root`; elsewhere the tensors are only read.
inline Handle grouped_reduce_async(const Session& session, std::span<const Tensor> tensors, int32_t root,
                                   const AllreduceOptions& options = {}) {
  const detail::CTensors c(tensors);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c_options, rueda_handle* handle) {
    return rueda_grouped_reduce_async(session.c_session(), c.count(), c.data(), c.data(), nullptr,
                                      static_cast<int32_t>(options.op), root, c_options, handle);
  });
}

inline Handle grouped_alltoall_async(const Session& session, std::span<const ConstTensor> inputs,
                                     std::span<const std::vector<int64_t>> splits = {},
                                     const ExchangeOptions& options = {}) {
  const detail::CTensors in(inputs);
  const detail::CSplits dealt(splits, inputs.size(), detail::members_of(session, options.process_set));
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_alltoall_async(session.c_session(), in.count(), in.data(), dealt.data(), nullptr, nullptr, c,
                                        handle);
  });
}

inline Handle grouped_gather_async(const Session& session, std::span<const ConstTensor> inputs, int32_t root,
                                   const ExchangeOptions& options = {}) {
  const detail::CTensors in(inputs);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_gather_async(session.c_session(), in.count(), in.data(), nullptr, nullptr, root, c, handle);
  });
}

/// Elsewhere than on `root` the tensors are looked at for their dtypes and the shapes of their rows only, the splits
/// not at all.
inline Handle grouped_scatter_async(const Session& session, std::span<const ConstTensor> inputs, int32_t root,
                                    std::span<const std::vector<int64_t>> splits = {},
                                    const ExchangeOptions& options = {}) {
  const detail::CTensors in(inputs);
  const bool deals = session.rank() == root;
  const detail::CSplits dealt(deals ? splits : std::span<const std::vector<int64_t>>(), inputs.size(),
                              detail::members_of(session, options.process_set));
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_scatter_async(session.c_session(), in.count(), in.data(), dealt.data(), nullptr, nullptr, root,
                                       c, handle);
  });
}

inline Handle grouped_send_async(const Session& session, std::span<const ConstTensor> inputs, int32_t peer,
                                 const ExchangeOptions& options = {}) {
  const detail::CTensors in(inputs);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_send_async(session.c_session(), in.count(), in.data(), nullptr, peer, c, handle);
  });
}

inline Handle grouped_recv_async(const Session& session, std::span<const Tensor> outputs, int32_t peer,
                                 const ExchangeOptions& options = {}) {
  const detail::CTensors out(outputs);
  return detail::COptions(options).enqueue([&](const rueda_op_options* c, rueda_handle* handle) {
    return rueda_grouped_recv_async(session.c_session(), out.count(), out.data(), nullptr, peer, c, handle);
  });
}

}  // namespace rueda
