// A rank that writes to hvdrun's store as the engine does. Its arguments are steps:
//   begin         counts a wish             goodbye       counts a goodbye
//   withdraw      withdraws its last wish   death         waits for the judge's verdict and prints its sentence
//   fail          notes that its epoch failed before its shutdown
//   key           checks that the key is 32 bytes and shows in no environment and on no command line
//   exit=N        exits with that code      kill=N        sends itself that signal
//   pause         waits for a signal
//   fork          leaves a child in a session of its own, which ignores SIGTERM and SIGHUP and outlives the rank
// and in an elastic job the steps of elastic_steps.h.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "runtime/base/file_text.h"
#include "runtime/store/death.h"
#include "runtime/store/store_client.h"
#include "runtime/store/store_keys.h"
#include "tests/launcher/elastic_steps.h"

using namespace rueda::core;

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

[[noreturn]] void give_up(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(99);
}

JobKey read_key() {
  JobKey key;
  const int fd = std::atoi(variable("RUEDA_JOB_KEY_FD").c_str());
  key.present = pread(fd, key.bytes.data(), key.bytes.size(), 0) == static_cast<ssize_t>(key.bytes.size());
  if (!key.present) give_up("no key of 32 bytes behind RUEDA_JOB_KEY_FD");
  return key;
}

std::unique_ptr<StoreClient> connect(const JobKey& key) {
  auto where = parse_store_address(variable("RUEDA_STORE_ADDR"));
  if (!where.ok()) give_up(where.status().sentence());
  where.value().job = variable("RUEDA_JOB");
  where.value().key = key;
  auto client = StoreClient::connect(where.value(), Deadline::after(std::chrono::seconds(60)));
  if (!client.ok()) give_up(client.status().sentence());
  return std::move(client).value();
}

// Looks for the key, as bytes or hex digits, in every process that we may read.
void find_leak(const JobKey& key) {
  const std::string raw(key.bytes.begin(), key.bytes.end());
  std::string hex;
  for (const uint8_t byte : key.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    hex += digits;
  }
  for (const std::string& pid : {std::to_string(getpid()), std::to_string(getppid())}) {
    for (const char* file : {"/environ", "/cmdline"}) {
      const std::string text = file_text("/proc/" + pid + file);
      if (text.empty()) give_up("cannot look into process " + pid);
      if (text.find(raw) != std::string::npos || text.find(hex) != std::string::npos) give_up("the key shows");
    }
  }
  std::puts("the key is hidden");
}

void leave_child() {
  if (fork() != 0) return;
  setsid();
  for (const int number : {SIGTERM, SIGHUP, SIGINT}) signal(number, SIG_IGN);
  if (fork() != 0) _exit(0);
  for (;;) pause();
}

void act(const std::string& word, Store& store, const JobKey& key) {
  const std::string job = variable("RUEDA_JOB");
  const int rank = std::atoi(variable("RUEDA_RANK").c_str());
  static int64_t wishes = 0;
  if (word == "begin") {
    wishes = store.add(wishes_key(job, rank), 1).value();
    if (!store.set(wish_key(job, rank, wishes), "wish").ok()) give_up("no wish");
  } else if (word == "withdraw") {
    if (!store.set(wish_key(job, rank, wishes), "").ok()) give_up("no withdrawal");
  } else if (word == "leave") {
    if (!store.add(leaving_key(job, rank), 1).ok()) give_up("no departure");
  } else if (word == "goodbye") {
    if (!store.add(goodbyes_key(job, rank), 1).ok()) give_up("no goodbye");
  } else if (word == "fail") {
    if (!store.set(failed_key(job, rank, wishes), "the epoch was lost").ok()) give_up("no failure");
  } else if (word == "death") {
    const auto text = store.get(death_key(job), Deadline::after(std::chrono::seconds(120)));
    if (!text.ok()) give_up(text.status().sentence());
    const auto verdict = decode_death(text.value());
    std::puts(verdict ? verdict->status().sentence().c_str() : "not a verdict");
  } else if (word == "key") {
    find_leak(key);
  } else if (word == "pause") {
    for (;;) pause();
  } else if (word == "fork") {
    leave_child();
  } else if (word.starts_with("exit=")) {
    std::exit(std::atoi(word.c_str() + 5));
  } else if (word.starts_with("kill=")) {
    kill(getpid(), std::atoi(word.c_str() + 5));
  } else if (!rueda::test::elastic_step(word, store)) {
    give_up("there is no step " + word);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const JobKey key = read_key();
  const auto store = connect(key);
  for (int i = 1; i < argc; ++i) act(argv[i], *store, key);
}
