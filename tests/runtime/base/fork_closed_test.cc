#include "runtime/base/fork_closed.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/base/unique_fd.h"

namespace rueda::core {
namespace {

UniqueFd open_null() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

/// Forks, closes what is inherited, and asks `is_right` there.
template <typename IsRight>
bool right_in_child(IsRight&& is_right) {
  const pid_t child = ::fork();
  if (child == 0) {
    close_inherited();
    ::_exit(is_right() ? 0 : 1);
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

TEST_CASE("a child keeps no descriptor that has an owner, and everything else") {
  const UniqueFd owned = open_null();
  UniqueFd given_away = open_null();
  const int foreign = given_away.release();
  CHECK(right_in_child([&] { return !is_open(owned.get()) && is_open(foreign) && is_open(STDOUT_FILENO); }));
  CHECK(is_open(owned.get()));
  ::close(foreign);
}

TEST_CASE("the number of a closed descriptor is nobody's any more") {
  UniqueFd owned = open_null();
  const int number = owned.get();
  owned.reset();
  const int foreign = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  REQUIRE(foreign == number);
  CHECK(right_in_child([&] { return is_open(foreign); }));
  ::close(foreign);
}

TEST_CASE("moving an owner leaves its descriptor owned") {
  UniqueFd first = open_null();
  const UniqueFd second = std::move(first);
  CHECK(right_in_child([&] { return !is_open(second.get()); }));
}

}  // namespace
}  // namespace rueda::core
