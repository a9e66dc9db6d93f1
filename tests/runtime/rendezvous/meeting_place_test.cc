// Where ranks meet, under which key, which process serves there, and what a store that lies can do.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "runtime/rendezvous/form.h"
#include "runtime/rendezvous/identity.h"
#include "runtime/rendezvous/open_store.h"
#include "runtime/rendezvous/wish.h"
#include "runtime/store/job_key.h"
#include "runtime/store/long_value.h"
#include "runtime/store/memory_store.h"
#include "runtime/store/store_keys.h"
#include "runtime/store/store_server.h"
#include "tests/support/temporary_folder.h"

namespace rueda::core {
namespace {

using Catch::Matchers::Contains;
using Variables = std::map<std::string, std::string>;

Environment environment_of(Variables variables) { return Environment(std::move(variables)); }

Result<StoreChoice> choose(const Identity& identity, Variables variables) {
  return choose_store(identity, Environment(std::move(variables)));
}

Identity keyed(int rank, int size, int local_size = 0) {
  Identity identity;
  identity.rank = rank;
  identity.size = size;
  identity.local_size = local_size;
  identity.key.present = true;
  identity.key.bytes.fill(9);
  return identity;
}

/// A file with this content and mode, gone at the end.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& content, mode_t mode) {
    const int fd = ::mkstemp(path_.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::fchmod(fd, mode);
    ::close(fd);
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/rueda_key_test_XXXXXX";
};

TEST_CASE("where the ranks meet comes from the launcher") {
  CHECK(choose(keyed(0, 1), {}).value().kind == StoreKind::kNone);
  const auto launcher = choose(keyed(0, 2), {{"RUEDA_STORE_ADDR", "h:5"}, {"RUEDA_STORE", "launcher"}}).value();
  CHECK(launcher.kind == StoreKind::kLauncher);
  CHECK(launcher.address == "h:5");
  CHECK(choose(keyed(1, 2), {{"RUEDA_STORE_ADDR", "h:5"}}).value().kind == StoreKind::kRankZero);
  const auto torchrun = choose(keyed(1, 2), {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}).value();
  CHECK(torchrun.kind == StoreKind::kRankZero);
  CHECK(torchrun.address == "node1:29501");
  const auto slurm = choose(keyed(1, 2), {{"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NODELIST", "gpu[07-12,20],x"}}).value();
  CHECK_THAT(slurm.address, Catch::StartsWith("gpu07:"));
  CHECK_THAT(choose(keyed(1, 2), {{"SLURM_STEP_ID", "3"}, {"SLURM_STEP_NODELIST", "n1,n2"}}).value().address,
             Catch::StartsWith("n1:"));
  CHECK_THAT(choose(keyed(1, 2, 2), {}).value().address, Catch::StartsWith("127.0.0.1:"));
  CHECK(choose(keyed(1, 2, 2), {}).value().address == choose(keyed(0, 2, 2), {}).value().address);
}

TEST_CASE("where nothing says where ranks meet, or nonsense does, the error says what to set") {
  CHECK_THAT(choose(keyed(0, 2), {}).status().sentence(), Contains("RUEDA_STORE_ADDR"));
  CHECK_THAT(choose(keyed(0, 2), {{"RUEDA_STORE_ADDR", "h"}}).status().sentence(), Contains("RUEDA_STORE_ADDR: \"h\""));
  CHECK_THAT(choose(keyed(0, 2), {{"RUEDA_STORE_ADDR", "h:1"}, {"RUEDA_STORE", "moon"}}).status().sentence(),
             Contains("\"moon\""));
  CHECK(choose(keyed(0, 2), {{"MASTER_ADDR", "h"}}).status().sentence() ==
        "MASTER_PORT is not set, but MASTER_ADDR is");
  CHECK(choose(keyed(0, 2), {{"MASTER_PORT", "1"}}).status().sentence() ==
        "MASTER_ADDR is not set, but MASTER_PORT is");
  CHECK_THAT(choose(keyed(0, 2), {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "x"}}).status().sentence(),
             Contains("MASTER_PORT"));
}

TEST_CASE("without a key the error holds the commands that make one, unless insecure is chosen") {
  Identity identity = keyed(0, 2);
  identity.key = {};
  const Environment environment = environment_of({{"RUEDA_STORE_ADDR", "h:5"}});
  const StoreChoice elsewhere = choose_store(identity, environment).value();
  const Status refused = provide_key(identity, elsewhere, Settings(), environment);
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.sentence(),
             Contains("head -c 32 /dev/urandom") && Contains("RUEDA_JOB_KEY_FILE") && Contains("RUEDA_INSECURE=1"));
  Settings insecure;
  insecure.insecure = true;
  CHECK(provide_key(identity, elsewhere, insecure, environment).ok());
  CHECK_FALSE(identity.key.present);
}

TEST_CASE("ranks of one host without a key share the key of their user, which no other user can read") {
  const test::TemporaryFolder folder;
  const Environment environment = environment_of({{"XDG_RUNTIME_DIR", folder.path()}});
  const auto key_of = [&](Identity identity, const std::string& address) {
    identity.key = {};
    const StoreChoice choice{StoreKind::kRankZero, address};
    const Status status = provide_key(identity, choice, Settings(), environment);
    CHECK(status.sentence() == "");
    return identity.key;
  };
  const JobKey first = key_of(keyed(0, 2, 2), "node:5");
  CHECK(first.present);
  CHECK(key_of(keyed(1, 2, 2), "node:5").bytes == first.bytes);
  CHECK(key_of(keyed(1, 2), "127.0.0.1:5").bytes == first.bytes);
  struct stat info {};
  const std::string file = folder.path() + "/rueda/key";
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  REQUIRE(::stat((folder.path() + "/rueda").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  CHECK_THAT(user_key(environment).status().sentence(), Contains(file) && Contains("open to others"));
  REQUIRE(::chmod((folder.path() + "/rueda").c_str(), 0755) == 0);
  CHECK(user_key(environment).status().code() == Code::kSystem);
  CHECK_THAT(user_key(environment_of({{"XDG_RUNTIME_DIR", "/nonexistent"}})).status().sentence(),
             Contains("/nonexistent/rueda") && Contains("RUEDA_JOB_KEY_FILE"));
}

TEST_CASE("many processes that make the user's key at once all have the same one") {
  const test::TemporaryFolder folder;
  const Environment environment = environment_of({{"XDG_RUNTIME_DIR", folder.path()}});
  std::vector<std::thread> threads;
  std::vector<JobKey> keys(8);
  for (JobKey& key : keys) threads.emplace_back([&] { key = user_key(environment).value(); });
  for (std::thread& thread : threads) thread.join();
  for (const JobKey& key : keys) CHECK(key.bytes == keys.front().bytes);
}

TEST_CASE("a key file must be a regular file of this user of 32 bytes that no other user may open") {
  const std::string bytes = "0123456789abcdef0123456789abcdef";
  const auto with = [](const std::string& path) {
    return read_job_key(environment_of({{"RUEDA_JOB_KEY_FILE", path}}));
  };
  const TemporaryFile good(bytes, 0600);
  REQUIRE(with(good.path()).ok());
  CHECK(with(good.path()).value().present);
  CHECK(with(good.path()).value().bytes[1] == '1');
  const TemporaryFile open_to_group(bytes, 0640);
  CHECK_THAT(with(open_to_group.path()).status().sentence(), Contains("chmod 600"));
  const TemporaryFile too_short(bytes.substr(1), 0600);
  CHECK_THAT(
      with(too_short.path()).status().sentence(),
      Contains(too_short.path() + "): has 31 bytes; a job key has exactly 32") && Contains("head -c 32 /dev/urandom"));
  const TemporaryFile empty("", 0600);
  CHECK_THAT(with(empty.path()).status().sentence(), Contains("has 0 bytes; a job key has exactly 32"));
  CHECK_THAT(with("/nonexistent/key").status().sentence(), Contains("No such file"));
  CHECK_THAT(with("/tmp").status().sentence(), Contains("is not a regular file"));
  CHECK_FALSE(read_job_key(Environment()).value().present);
}

TEST_CASE("a private key of OpenSSH is refused, although it begins with 32 bytes that all of them have") {
  const TemporaryFile key("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n", 0600);
  const Status refused = read_job_key(environment_of({{"RUEDA_JOB_KEY_FILE", key.path()}})).status();
  CHECK(refused.code() == Code::kInvalidArgument);
  CHECK_THAT(refused.sentence(), Contains("has 79 bytes; a job key has exactly 32"));
}

TEST_CASE("a pipe that holds more than a key is refused") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string bytes(33, 'x');
  REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == 33);
  const auto key = read_job_key(environment_of({{"RUEDA_JOB_KEY_FD", std::to_string(ends[0])}}));
  CHECK(key.status().sentence() == "RUEDA_JOB_KEY_FD: holds more than the 32 bytes of a key");
  ::close(ends[1]);
}

TEST_CASE("a key that came by descriptor is read once, closed, and remembered") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const std::string bytes = "0123456789abcdef0123456789abcdef";
  REQUIRE(::write(ends[1], bytes.data(), bytes.size()) == 32);
  ::close(ends[1]);
  CHECK_FALSE(read_job_key(environment_of({{"RUEDA_JOB_KEY_FD", "nine"}})).ok());
  CHECK_FALSE(read_job_key(environment_of({{"RUEDA_JOB_KEY_FD", "0"}})).ok());
  const Environment environment = environment_of({{"RUEDA_JOB_KEY_FD", std::to_string(ends[0])}});
  const auto first = read_job_key(environment);
  REQUIRE(first.ok());
  CHECK(first.value().bytes[15] == 'f');
  CHECK(::fcntl(ends[0], F_GETFD) == -1);
  const auto again = read_job_key(environment);
  REQUIRE(again.ok());
  CHECK(again.value().bytes == first.value().bytes);
}

TEST_CASE("rank 0's server lives as long as its process and is found again") {
  const Deadline deadline = Deadline::after(std::chrono::minutes(2));
  Identity zero = keyed(0, 2);
  zero.job = "identity-test-" + std::to_string(::getpid());
  zero.local_size = 2;
  const StoreChoice choice = choose_store(zero, Environment()).value();
  const auto served = open_store(choice, zero, deadline);
  REQUIRE(served.ok());
  Identity one = zero;
  one.rank = 1;
  const auto client = open_store(choice, one, deadline);
  REQUIRE(client.ok());
  CHECK(client.value()->set("k", "v").ok());
  CHECK(served.value()->get("k", deadline).value() == "v");
  const auto again = open_store(choice, zero, deadline);
  REQUIRE(again.ok());
  CHECK(again.value()->get("k", deadline).value() == "v");
  Identity other = zero;
  other.key.bytes.fill(1);
  CHECK(open_store(choice, other, deadline).status().code() == Code::kInvalidArgument);
  CHECK(open_store({}, zero, deadline).value() == nullptr);
}

TEST_CASE("where rank 0 opens the store, its absence is said, and only then") {
  const StoreKind kind = GENERATE(StoreKind::kRankZero, StoreKind::kLauncher);
  Identity identity;
  identity.rank = 1;
  identity.size = 2;
  const uint16_t port = StoreServer::start({}).value()->port();
  const StoreChoice choice{kind, "127.0.0.1:" + std::to_string(port)};
  const auto store = open_store(choice, identity, Deadline::after(std::chrono::milliseconds(50)));
  CHECK(store.status().code() == Code::kTimeout);
  CHECK(store.status().rank() == (kind == StoreKind::kRankZero ? 0 : -1));
  const bool named = store.status().sentence().find("; rank 0 opens it in its init") != std::string::npos;
  CHECK(named == (kind == StoreKind::kRankZero));
}

/// A store that changes what rank 0 publishes, and gives every rank as fit whatever it reported.
class LyingStore : public MemoryStore {
 public:
  explicit LyingStore(std::function<void(World&)> lie) : lie_(std::move(lie)) {}
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    auto told = MemoryStore::get(key, deadline);
    if (told.ok() && key == world_key("job", 1)) {
      MemoryStore other;
      static_cast<void>(other.set(key, told.value()));
      World world = decode_world(get_long(other, key, deadline).value()).value();
      lie_(world);
      static_cast<void>(set_long(other, key, encode(world)));
      return other.get(key, deadline);
    }
    if (told.ok() && key == hosts_key("job", 1)) return encode(Status(), {0, 0});
    return told;
  }

 private:
  std::function<void(World&)> lie_;
};

/// What two ranks with these settings make of the lie.
std::vector<Status> form_through(LyingStore& store, const Settings& settings, const JobKey& key,
                                 const std::vector<std::string>& hosts = {"a", "a"}) {
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Identity identity = keyed(rank, 2, 2);
      identity.key = key;
      identity.host = hosts[static_cast<size_t>(rank)];
      const Deadline deadline = Deadline::after(std::chrono::minutes(2));
      statuses[static_cast<size_t>(rank)] = form_epoch(identity, &store, settings, deadline).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

TEST_CASE("a store that lies about a setting which must match is refused by every rank") {
  Settings settings;
  settings.tls_all = true;
  settings.deterministic = true;
  settings.compression = CodecId::kFp16;
  struct Lie {
    std::string truth, told, shown;
  };
  const auto lie =
      GENERATE(Lie{"TLS=all", "TLS=control", "RUEDA_TLS is \"control\" there, \"all\" here"},
               Lie{"DETERMINISTIC=1", "DETERMINISTIC=0", "RUEDA_DETERMINISTIC is \"0\" there, \"1\" here"},
               Lie{"COMPRESSION=fp16", "COMPRESSION=none", "RUEDA_COMPRESSION is \"none\" there, \"fp16\" here"},
               Lie{"INSECURE=0", "INSECURE=1", "RUEDA_INSECURE is \"1\" there, \"0\" here"});
  LyingStore store([&lie](World& world) {
    const size_t at = world.agreed.find(lie.truth + "\n");
    if (at != std::string::npos) world.agreed.replace(at, lie.truth.size(), lie.told);
  });
  for (const Status& status : form_through(store, settings, keyed(0, 2).key)) {
    CHECK(status.code() == Code::kMismatch);
    CHECK_THAT(status.sentence(), Contains(lie.shown) && Contains("check what else writes to the store"));
  }
}

TEST_CASE("a store that drops the job key which it is to carry is refused by every rank") {
  LyingStore store([](World& world) { world.key = {}; });
  for (const Status& status : form_through(store, Settings(), JobKey())) {
    CHECK(status.code() == Code::kMismatch);
    CHECK_THAT(status.sentence(), Contains("no job key") && Contains("RUEDA_INSECURE=1"));
  }
}

TEST_CASE("a store that puts ranks of two hosts on one is refused by every rank") {
  LyingStore store([](World&) {});  // whose partition says that both are on host 0
  for (const Status& status : form_through(store, Settings(), keyed(0, 2).key, {"a", "b"})) {
    CHECK(status.code() == Code::kMismatch);
    CHECK_THAT(status.sentence(), Contains("on one host, but they share no memory"));
  }
}

}  // namespace
}  // namespace rueda::core
