#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rueda/session.hpp"

namespace rueda {

/// Rows of a table: row `indices[i]` is `values[i * columns ...]`.
template <typename T>
struct SparseRows {
  std::vector<int64_t> indices;
  std::vector<T> values;
};

/// Sorts the rows and adds up rows of equal index, in the order in which they come.
template <typename T>
SparseRows<T> coalesced(std::span<const int64_t> indices, std::span<const T> values, size_t columns) {
  std::vector<size_t> order(indices.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return indices[a] < indices[b]; });
  SparseRows<T> rows;
  for (const size_t i : order) {
    const auto row = values.subspan(i * columns, columns);
    if (rows.indices.empty() || rows.indices.back() != indices[i]) {
      rows.indices.push_back(indices[i]);
      rows.values.insert(rows.values.end(), row.begin(), row.end());
      continue;
    }
    const auto sum = rows.values.end() - static_cast<std::ptrdiff_t>(columns);
    std::transform(row.begin(), row.end(), sum, sum, [](T value, T so_far) { return static_cast<T>(so_far + value); });
  }
  return rows;
}

struct SparseOptions {
  ReduceOp op = ReduceOp::kAverage;  ///< or a sum
  std::string name = {};             ///< as in AllreduceOptions
  int32_t process_set = RUEDA_GLOBAL_SET;
};

/// Sums all ranks' sparse updates to one table, such as the gradient of an embedding; only rows that a rank has touched
/// move. Each rank first adds up its own rows of equal index. Indices and values travel as one group, agreed on as one
/// operation. If the ranks' rows of the previous step were so many that a dense all-reduce moves fewer bytes, the table
/// travels as a dense all-reduce together with the number of rows, until they are few again. All ranks see the same
/// numbers, so all decide alike and receive the same rows with the same bits.
///
/// Use one object for each table, made and used in the same way on all ranks, with one reduction at a time. Not for
/// several threads.
template <typename T>
class SparseAllreduce {
 public:
  /// Describes a table of `rows` x `columns`. The session must outlive this object. InvalidArgument: an operator other
  /// than average and sum, or a table without columns.
  SparseAllreduce(const Session& session, int64_t rows, int64_t columns, SparseOptions options = {})
      : session_(session), rows_(rows), columns_(columns), options_(std::move(options)) {
    if (options_.op != ReduceOp::kSum && options_.op != ReduceOp::kAverage) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "a sparse all-reduce computes sums and averages only");
    }
    if (rows < 0 || columns < 1) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, "a sparse all-reduce of a table of " + std::to_string(rows) +
                                                        " x " + std::to_string(columns));
    }
  }

  /// Enqueues this rank's rows: `values` holds `columns` for each of `indices`, which may repeat. Both are copied.
  /// InvalidArgument: an index outside the table, another number of values.
  void start(std::span<const int64_t> indices, std::span<const T> values) {
    check_rows(indices, values.size());
    own_ = coalesced(indices, values, static_cast<size_t>(columns_));
    counted_ = static_cast<int64_t>(own_.indices.size());
    if (dense()) return start_dense();
    const ConstTensor tensors[] = {ConstTensor(own_.indices),
                                   ConstTensor(own_.values.data(), DtypeOf<T>::value, {counted_, columns_})};
    handle_ = session_.grouped_allgather_async(tensors, {.name = options_.name, .process_set = options_.process_set});
  }

  /// Waits and returns the rows that any rank has touched, in ascending order; after a dense step, the rows that are
  /// not zero.
  SparseRows<T> finish() {
    handle_.wait();
    return table_.empty() ? finish_sparse() : finish_dense();
  }

  SparseRows<T> reduce(std::span<const int64_t> indices, std::span<const T> values) {
    start(indices, values);
    return finish();
  }

  /// Returns whether the next reduction is dense: the ranks' rows of the last one, moved as rows, took more bytes than
  /// the table.
  bool dense() const {
    if (averages_whole()) return false;  // whose sums may be more than the type holds
    const double row_bytes = static_cast<double>(columns_) * sizeof(T);
    const double moved_dense = 2 * static_cast<double>(rows_) * row_bytes;
    return static_cast<double>(touched_) * (sizeof(int64_t) + row_bytes) > moved_dense;
  }

 private:
  void check_rows(std::span<const int64_t> indices, size_t values) const {
    if (values != indices.size() * static_cast<size_t>(columns_)) {
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT, std::to_string(values) + " values for " +
                                                        std::to_string(indices.size()) + " rows of " +
                                                        std::to_string(columns_));
    }
    for (const int64_t index : indices) {
      if (index >= 0 && index < rows_) continue;
      throw InvalidArgument(RUEDA_INVALID_ARGUMENT,
                            "row " + std::to_string(index) + " of a table of " + std::to_string(rows_) + " rows");
    }
  }

  void start_dense() {
    table_.assign(static_cast<size_t>(rows_ * columns_), T{});
    for (size_t i = 0; i < own_.indices.size(); ++i) {
      std::copy_n(own_.values.begin() + static_cast<std::ptrdiff_t>(i) * columns_, columns_,
                  table_.begin() + own_.indices[i] * columns_);
    }
    const Tensor tensors[] = {Tensor(table_), Tensor(&counted_, RUEDA_I64, {1})};
    handle_ = session_.grouped_allreduce_async(
        tensors,
        {.op = ReduceOp::kSum, .name = options_.name, .process_set = options_.process_set, .codec = Codec::kNone});
  }

  SparseRows<T> finish_dense() {
    touched_ = counted_;
    SparseRows<T> rows;
    for (int64_t row = 0; row < rows_; ++row) {
      const auto begin = table_.begin() + row * columns_;
      if (std::all_of(begin, begin + columns_, [](T value) { return value == T{}; })) continue;
      rows.indices.push_back(row);
      rows.values.insert(rows.values.end(), begin, begin + columns_);
    }
    table_.clear();
    return averaged(std::move(rows));
  }

  SparseRows<T> finish_sparse() {
    const auto indices = handle_.output(0).template elements<int64_t>();
    const auto values = handle_.output(1).template elements<T>();
    touched_ = static_cast<int64_t>(indices.size());
    SparseRows<T> rows = averages_whole() ? averaged_exactly(indices, values)
                                          : averaged(coalesced<T>(indices, values, static_cast<size_t>(columns_)));
    handle_ = Handle();
    return rows;
  }

  bool averages_whole() const { return std::is_integral_v<T> && options_.op == ReduceOp::kAverage; }

  /// Truncates toward zero, as an all-reduce does.
  SparseRows<T> averaged_exactly(std::span<const int64_t> indices, std::span<const T> values) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    const std::vector<Wide> wide(values.begin(), values.end());
    const SparseRows<Wide> sums = coalesced<Wide>(indices, wide, static_cast<size_t>(columns_));
    const auto ranks = static_cast<Wide>(rueda_process_set_size(session_.c_session(), options_.process_set));
    SparseRows<T> rows{sums.indices, {}};
    for (const Wide sum : sums.values) rows.values.push_back(static_cast<T>(sum / ranks));
    return rows;
  }

  SparseRows<T> averaged(SparseRows<T> rows) const {
    if (options_.op != ReduceOp::kAverage) return rows;
    const auto ranks = static_cast<T>(rueda_process_set_size(session_.c_session(), options_.process_set));
    for (T& value : rows.values) value = static_cast<T>(value / ranks);
    return rows;
  }

  const Session& session_;
  int64_t rows_;
  int64_t columns_;
  SparseOptions options_;
  SparseRows<T> own_;
  std::vector<T> table_;  ///< of a dense step
  int64_t counted_ = 0;   ///< own rows; after a dense step all ranks'
  int64_t touched_ = 0;   ///< all ranks' rows of the last reduction
  Handle handle_;         ///< destroyed first, so that it takes back the lent memory
};

}  // namespace rueda
