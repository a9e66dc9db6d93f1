#pragma once
#include <functional>
#include <string>

#include "tests/bindings/operations.h"

namespace rueda::test {

/// Refused with INVALID_ARGUMENT and a sentence that contains `words`, on a session that works before and after.
inline void expect_refused(rueda_session* session, int32_t code, rueda_handle handle, const std::string& words) {
  const std::string sentence = rueda_last_error();
  expect_code(code, RUEDA_INVALID_ARGUMENT, "a call whose refusal should say '" + words + "'");
  expect(handle == 0, "a refused call left a handle");
  expect(rueda_last_error_code() == RUEDA_INVALID_ARGUMENT, "the thread's last error code is another");
  expect(sentence.find(words) != std::string::npos, "'" + sentence + "' does not say '" + words + "'");
  expect_usable(session, "after a refusal");
}

/// Each rank makes the same wrong call.
inline void each_rank_is_refused(const std::function<int32_t(rueda_session*, rueda_handle*)>& call,
                                 const std::string& words) {
  run_ranks(2, [&](rueda_session* session, int) {
    rueda_handle handle = 77;
    const int32_t code = call(session, &handle);
    expect_refused(session, code, handle, words);
  });
}

/// An in-place all-reduce.
inline int32_t reduce(rueda_session* session, const rueda_tensor* tensor, int32_t op, const rueda_op_options* options,
                      rueda_handle* handle) {
  return rueda_allreduce_async(session, tensor, tensor, op, options, handle);
}

}  // namespace rueda::test
