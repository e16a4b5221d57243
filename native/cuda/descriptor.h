// File descriptors that one process of this machine takes from another. Must not know what is behind them.
#pragma once

#include <string>

namespace cudalloc {

// A file descriptor of this process; closed at the end, and not inherited by programs that it starts.
class Descriptor {
 public:
  explicit Descriptor(int number);
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }

  int number() const { return number_; }
  void close();

 private:
  int number_;
};

// Where another process finds a descriptor. Both the process's number and the descriptor's are used again
// after their ends, so there is a witness: a second descriptor, whose file holds the token for as long as the
// first one is open.
struct DescriptorAddress {
  int process;
  int descriptor;
  int witness;
  // 32 hexadecimal digits, never the same twice.
  std::string token;
};

class ExportedDescriptor {
 public:
  // Throws Unsupported when the system has no file for the witness.
  explicit ExportedDescriptor(Descriptor descriptor);
  const DescriptorAddress& address() const { return address_; }

 private:
  Descriptor descriptor_;
  DescriptorAddress address_;
  // The last member: it ends first.
  Descriptor witness_;
};

// A copy of the descriptor at such an address, by pidfd_getfd. Throws UseAfterFree when it is not there any
// more, and Unsupported when the system does not allow it.
Descriptor fetch_descriptor(const DescriptorAddress& address);

}  // namespace cudalloc
