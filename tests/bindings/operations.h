#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "bindings/c/rueda.h"
#include "tests/support/rank_threads.h"

namespace rueda::test {

/// How an operation ended.
struct Ending {
  int32_t code = RUEDA_OK;
  std::string sentence;
};

/// Waits, takes code and sentence, releases. `handle` is live.
inline Ending finish(rueda_handle handle) {
  Ending ending;
  ending.code = rueda_wait(handle, -1.0);
  ending.sentence = rueda_handle_error(handle);
  expect_code(rueda_release(handle), RUEDA_OK, "release");
  return ending;
}

/// Enqueues an in-place sum; 0 and the thread's last error where it was refused.
inline rueda_handle start_sum(rueda_session* session, std::vector<float>& values, const rueda_op_options& options) {
  const CTensor tensor(values, RUEDA_F32);
  rueda_handle handle = 0;
  static_cast<void>(rueda_allreduce_async(session, tensor.get(), tensor.get(), RUEDA_SUM, &options, &handle));
  return handle;
}
inline rueda_handle start_sum(rueda_session* session, std::vector<float>& values, const char* name) {
  return start_sum(session, values, named(name));
}

/// A blocking in-place sum.
inline int32_t sum(rueda_session* session, std::vector<float>& values, const char* name) {
  const CTensor tensor(values, RUEDA_F32);
  const rueda_op_options options = named(name);
  return rueda_allreduce(session, tensor.get(), tensor.get(), RUEDA_SUM, &options);
}

/// Proves that the session works: the ranks' numbers add up.
inline void expect_usable(rueda_session* session, const char* name) {
  const int size = rueda_size(session);
  std::vector<float> value = {static_cast<float>(rueda_rank(session))};
  expect_code(sum(session, value, name), RUEDA_OK, name);
  expect(value[0] == static_cast<float>(size * (size - 1)) / 2, std::string(name) + " gave a wrong sum");
}

}  // namespace rueda::test
