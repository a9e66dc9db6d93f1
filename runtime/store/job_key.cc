// Where a job's key comes from. Its bytes are read straight into the memory of a `SecretKey`, so that no other memory
// of the process ever holds them.
#include "runtime/store/job_key.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <optional>
#include <span>
#include <system_error>

#include "runtime/base/mutex.h"
#include "runtime/base/random.h"
#include "runtime/base/shortage.h"
#include "runtime/base/unique_fd.h"
#include "runtime/net/key_derivation.h"

namespace rueda::core {
namespace {

/// A descriptor can be read once in a process, but `init` may be called again and for several sessions. So the process
/// keeps what it read.
struct ReadOnce {
  Mutex mutex;
  std::optional<JobKey> key RUEDA_GUARDED_BY(mutex);
};

ReadOnce& read_once() {
  static auto* once = new ReadOnce;  // never destroyed: sessions may live until the process ends; its key is in no dump
  return *once;
}

Status refuse(const std::string& variable, const std::string& why) {
  return {Code::kInvalidArgument, variable + ": " + why};
}

/// A memory file has one offset for all processes that inherited it. It is read without moving that offset, so that the
/// program that a shell runs next finds the key as well. A pipe has no offset.
ssize_t read_at(int fd, uint8_t* to, size_t bytes, size_t offset) {
  const ssize_t got = ::pread(fd, to, bytes, static_cast<off_t>(offset));
  return got < 0 && errno == ESPIPE ? ::read(fd, to, bytes) : got;
}

/// A file of another length is some other kind of key: the first 32 bytes of all OpenSSH keys, say, are the same.
Status check_length(int fd, const std::string& variable) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return refuse(variable, reason_of(errno));
  if (!S_ISREG(info.st_mode) || info.st_size == static_cast<off_t>(SecretKey::kBytes)) return {};
  return refuse(variable, "has " + std::to_string(info.st_size) + " bytes; a job key has exactly " +
                              std::to_string(SecretKey::kBytes) + "; " + how_to_make_a_key());
}

/// Exactly the key's bytes from the descriptor.
Result<JobKey> read_key(int fd, const std::string& variable) {
  RUEDA_RETURN_IF_ERROR(check_length(fd, variable));
  JobKey key;
  size_t have = 0;
  while (have < key.bytes.size()) {
    const ssize_t got = read_at(fd, key.bytes.data() + have, key.bytes.size() - have, have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return refuse(variable, "cannot be read: " + reason_of(errno));
    if (got == 0) {
      return refuse(variable,
                    "holds " + std::to_string(have) + " bytes, a key has " + std::to_string(key.bytes.size()));
    }
    have += static_cast<size_t>(got);
  }
  // The length of a pipe is unknown, and its writer may keep it open, so the end is not awaited.
  uint8_t more = 0;
  pollfd entry{fd, POLLIN, 0};
  if (::poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0 && read_at(fd, &more, 1, have) > 0)
    return refuse(variable, "holds more than the " + std::to_string(have) + " bytes of a key");
  key.present = true;
  return key;
}

Result<JobKey> key_from_descriptor(const std::string& text) {
  const std::string variable = "RUEDA_JOB_KEY_FD";
  ReadOnce& once = read_once();
  MutexLock lock(once.mutex);
  if (once.key) return *once.key;
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 3) {
    return refuse(variable, "\"" + text + "\" is not allowed; allowed: the number of an open descriptor, 3 or more");
  }
  if (::fcntl(number, F_GETFD) < 0) {
    return refuse(variable, "descriptor " + text +
                                " is closed: a program between the launcher and this one did not pass "
                                "it on (Python's subprocess does with close_fds=False)");
  }
  const UniqueFd fd(number);
  auto key = read_key(fd.get(), variable);
  if (key.ok()) once.key = key.value();
  return key;
}

Result<JobKey> key_from_file(const std::string& path) {
  const std::string variable = "RUEDA_JOB_KEY_FILE";
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.valid()) return refuse(variable, path + ": " + reason_of(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return refuse(variable, path + ": " + reason_of(errno));
  if (!S_ISREG(info.st_mode)) return refuse(variable, path + " is not a regular file");
  if (info.st_uid != ::geteuid()) {
    return refuse(variable, path + " belongs to user " + std::to_string(info.st_uid) + ", but user " +
                                std::to_string(::geteuid()) + " runs this process");
  }
  if ((info.st_mode & 077) != 0) return refuse(variable, path + " is open to others; run: chmod 600 " + path);
  return read_key(fd.get(), variable + " (" + path + ")");
}

Status cannot_make(const std::string& what) {
  return {Code::kSystem,
          "init: this user's key: " + what + ": " + reason_of(errno) + "; set RUEDA_JOB_KEY_FILE to have it elsewhere"};
}

/// Returns an error unless a file or folder belongs to this user and is closed to all others.
Status check_ours(int fd, const std::string& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return cannot_make(path);
  if (info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return {};
  return {Code::kSystem, "init: this user's key: " + path + " belongs to user " + std::to_string(info.st_uid) +
                             " or is open to others; remove it, or set RUEDA_JOB_KEY_FILE"};
}

Result<UniqueFd> open_key_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return cannot_make(path);
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid()) return cannot_make(path);
  RUEDA_RETURN_IF_ERROR(check_ours(folder.get(), path));
  return folder;
}

/// Several processes may do this at once: each writes a file of its own, and the first that links it to the name `key`
/// wins. So no process ever reads a key that is half written.
Status make_key(int folder, const std::string& path) {
  const auto key = random_key();
  const auto name = random_name();
  if (!key.ok()) return key.status();
  if (!name.ok()) return name.status();
  UniqueFd file(::openat(folder, name.value().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file.valid()) return cannot_make(path);
  const auto bytes = static_cast<ssize_t>(key.value().size());
  const bool written = ::write(file.get(), key.value().data(), key.value().size()) == bytes;
  // On the disk before it has its name: a name without bytes after a crash would stop every later job of this user.
  const bool kept = written && ::fsync(file.get()) == 0;
  const bool named = kept && (::linkat(folder, name.value().c_str(), folder, "key", 0) == 0 || errno == EEXIST);
  Status status = named ? Status() : cannot_make(path);
  ::unlinkat(folder, name.value().c_str(), 0);
  return status;
}

}  // namespace

Result<JobKey> user_key(const Environment& environment) {
  const auto runtime = environment("XDG_RUNTIME_DIR");
  const std::string path = runtime ? *runtime + "/rueda" : "/tmp/rueda-" + std::to_string(::geteuid());
  const auto folder = open_key_folder(path);
  if (!folder.ok()) return folder.status();
  constexpr int kOpen = O_RDONLY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd file(::openat(folder.value().get(), "key", kOpen));
  if (!file.valid() && errno == ENOENT) {
    RUEDA_RETURN_IF_ERROR(make_key(folder.value().get(), path));
    file = UniqueFd(::openat(folder.value().get(), "key", kOpen));
  }
  if (!file.valid()) return cannot_make(path + "/key");
  RUEDA_RETURN_IF_ERROR(check_ours(file.get(), path + "/key"));
  return read_key(file.get(), path + "/key");
}

Result<JobKey> read_job_key(const Environment& environment) {
  if (const auto fd = environment("RUEDA_JOB_KEY_FD")) return key_from_descriptor(*fd);
  if (const auto path = environment("RUEDA_JOB_KEY_FILE")) return key_from_file(*path);
  return JobKey{};
}

std::string key_mark(const JobKey& key, const std::string& job) {
  if (!key.present) return {};
  const std::string text = "rueda key mark of " + job;
  const auto mac = hmac_sha256(key.bytes, std::as_bytes(std::span(text)));
  if (!mac.ok()) return {};
  constexpr size_t kShown = 4;
  std::string mark;
  for (size_t i = 0; i < kShown; ++i) {
    const auto byte = std::to_integer<unsigned>(mac.value()[i]);
    for (const unsigned digit : {byte >> 4, byte & 15}) mark += "0123456789abcdef"[digit];
  }
  return mark;
}

const char* how_to_make_a_key() {
  return "make one: (umask 077; head -c 32 /dev/urandom > job.key), give each host the file, and for every rank "
         "export RUEDA_JOB_KEY_FILE=$PWD/job.key; or, where nobody else can reach the ports, RUEDA_INSECURE=1";
}

}  // namespace rueda::core
