#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rueda/store.hpp"

namespace rueda {

/// The rank of this process in the job.
struct Place {
  int32_t rank = 0;
  int32_t size = 1;
};

/// Options of a session. A field that is left out takes its value from the environment of hvdrun or another launcher.
/// Pointers and views are borrowed while the session is being made.
struct InitOptions {
  std::optional<Place> place = {};
  Store* store = nullptr;
  std::string host_name = {};               ///< ranks with equal names try to share memory
  std::span<const std::byte> job_key = {};  ///< pre-shared, at least 16 bytes
  Seconds timeout{0};                       ///< time to wait for all ranks
  /// Process sets that exist from the start, equal on all ranks; they are numbered 1, 2, ...
  std::vector<std::vector<int32_t>> process_sets = {};
  /// If one of the next two fields is set, MPI says which ranks form the job (docs/guide/under-mpirun.md); `place` and
  /// `store` must be left out. All ranks give the same values.
  const void* mpi_comm = nullptr;   ///< address of an MPI_Comm with the job's ranks; null: all that mpirun has started
  std::vector<int32_t> ranks = {};  ///< only these ranks of it, in the order of their ranks in the job; empty: all
  bool wait_outside = false;        ///< a new worker of a running elastic job waits until `Session::reset`
};

namespace detail {

/// The options as rueda.h takes them. Borrows from the object that it is made of.
class CInitOptions {
 public:
  explicit CInitOptions(const InitOptions& options) {
    if (options.store != nullptr) store_.emplace(*options.store);
    c_.struct_size = sizeof c_;
    c_.has_rank = options.place ? 1 : 0;
    c_.rank = options.place ? options.place->rank : 0;
    c_.size = options.place ? options.place->size : 0;
    c_.store = store_ ? store_->c_store() : nullptr;
    c_.host_name = options.host_name.empty() ? nullptr : options.host_name.c_str();
    c_.job_key = options.job_key.empty() ? nullptr : options.job_key.data();
    c_.job_key_bytes = options.job_key.size();
    c_.timeout_seconds = options.timeout.count();
    for (const auto& ranks : options.process_sets) {
      sets_.push_back({sizeof(rueda_process_set), ranks.data(), ranks.size()});
    }
    c_.process_sets = sets_.data();
    c_.process_set_count = sets_.size();
    c_.mpi_comm = options.mpi_comm;
    c_.ranks = options.ranks.empty() ? nullptr : options.ranks.data();
    c_.rank_count = options.ranks.size();
    c_.wait_outside = options.wait_outside ? 1 : 0;
  }
  CInitOptions(const CInitOptions&) = delete;  // the options point here
  CInitOptions& operator=(const CInitOptions&) = delete;

  /// Throws the store's exception if there is one, else the error.
  rueda_session* init() const {
    rueda_session* session = nullptr;
    const int32_t code = rueda_init(&c_, &session);
    if (code != RUEDA_OK && store_) store_->rethrow();
    check(code);
    return session;
  }

 private:
  std::optional<CStore> store_;
  std::vector<rueda_process_set> sets_;
  rueda_init_options c_{};
};

}  // namespace detail
}  // namespace rueda
