#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace rueda::core {

/// 32 secret bytes: a job's key, or one derived from it. They lie in a page of their own that a core dump leaves out
/// (madvise(2), MADV_DONTDUMP), and are wiped when the object goes. Starts as all zero. A value like an array: copies
/// have pages of their own, and one thread at a time may use an object. Never print it. Throws std::bad_alloc if there
/// is not a page.
class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  SecretKey();
  /// The caller wipes `bytes` if they are secret.
  SecretKey(const std::array<uint8_t, kBytes>& bytes);  // NOLINT(google-explicit-constructor)
  SecretKey(const SecretKey& other);
  SecretKey& operator=(const SecretKey& other);
  ~SecretKey();

  uint8_t* data() { return bytes_; }
  const uint8_t* data() const { return bytes_; }
  static constexpr size_t size() { return kBytes; }
  uint8_t* begin() { return bytes_; }
  uint8_t* end() { return bytes_ + kBytes; }
  const uint8_t* begin() const { return bytes_; }
  const uint8_t* end() const { return bytes_ + kBytes; }
  uint8_t& operator[](size_t index) { return bytes_[index]; }
  uint8_t operator[](size_t index) const { return bytes_[index]; }
  void fill(uint8_t byte);
  /// Takes the same time for all keys.
  bool operator==(const SecretKey& other) const;

 private:
  uint8_t* bytes_;  // never null
};

/// Overwrites bytes that were secret; the compiler does not leave it out.
void wipe(void* bytes, size_t count);

}  // namespace rueda::core
