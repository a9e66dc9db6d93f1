// Opens files for outputs so that nothing that lies under their names can hurt: no link of another user is followed,
// and no FIFO blocks. open(2) waits for a reader of a FIFO unless O_NONBLOCK is given; the flag goes again afterwards,
// because writers expect to wait for a slow reader.
#include "runtime/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rueda::core {
namespace {

Status failed(const std::string& what, const std::string& path, int error) {
  const std::string why = error == ENXIO ? "it is a FIFO or device that no process reads" : std::strerror(error);
  return {Code::kSystem, what + " cannot be written to " + path + ": " + why};
}

}  // namespace

Status check_link(const std::string& what, const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return {};
  if (info.st_uid == ::geteuid() || info.st_uid == 0) return {};
  return {Code::kSystem, what + " cannot be written to " + path + ": this name is a symbolic link of user " +
                             std::to_string(info.st_uid) + "; remove it or choose a folder of your own"};
}

Result<UniqueFd> open_output(const std::string& what, const std::string& path) {
  RUEDA_RETURN_IF_ERROR(check_link(what, path));
  struct stat info {};
  // A link that was none a moment ago is not followed.
  const bool link = ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  UniqueFd file(::open(path.c_str(), link ? kFlags : kFlags | O_NOFOLLOW, 0666));
  if (!file.valid() || ::fstat(file.get(), &info) != 0) return failed(what, path, errno);
  if (S_ISREG(info.st_mode) && ::ftruncate(file.get(), 0) != 0) return failed(what, path, errno);
  if (::fcntl(file.get(), F_SETFL, 0) != 0) return failed(what, path, errno);
  return file;
}

Result<UniqueFd> make_output(const std::string& what, const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failed(what, path, errno);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.valid()) return failed(what, path, errno);
  return file;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(file, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace rueda::core
