// Descriptors of other processes, as Linux gives them (pidfd_getfd, since 5.6).
#include "descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "errors.h"

// Older headers do not name them; the numbers are the same on every architecture.
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace cudalloc {
namespace {

std::string system_text(int error) { return std::strerror(error); }

std::string make_token() {
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random)) {
    throw Error(ErrorCode::Unsupported, "The system gives no random numbers: " + system_text(errno) + ".");
  }
  static const char digits[] = "0123456789abcdef";
  std::string token;
  for (const unsigned char byte : random) {
    token += digits[byte >> 4];
    token += digits[byte & 15];
  }
  return token;
}

Descriptor make_witness(const std::string& token) {
  Descriptor witness(memfd_create("cudalloc-witness", MFD_CLOEXEC));
  if (witness.number() < 0 ||
      write(witness.number(), token.data(), token.size()) != static_cast<ssize_t>(token.size())) {
    throw Error(ErrorCode::Unsupported,
                "There is no descriptor left to share memory by: " + system_text(errno) + ".");
  }
  return witness;
}

std::string read_witness(int descriptor) {
  char text[64];
  const ssize_t length = pread(descriptor, text, sizeof text, 0);
  return length < 0 ? std::string() : std::string(text, static_cast<size_t>(length));
}

[[noreturn]] void fail_gone(const DescriptorAddress& address) {
  throw Error(ErrorCode::UseAfterFree,
              "Process " + std::to_string(address.process) +
                  " does not share this memory any more, or it is not a process of this container.");
}

[[noreturn]] void fail_refused(const DescriptorAddress& address, const char* call, int error) {
  const std::string process = std::to_string(address.process);
  if (error == ENOSYS) {
    throw Error(ErrorCode::Unsupported, std::string("The kernel has no ") + call +
                                            ", which takes a descriptor from another process (Linux 5.6); "
                                            "pass the descriptor itself on.");
  }
  throw Error(ErrorCode::Unsupported,
              std::string("The kernel does not let this process take a descriptor from process ") + process +
                  " (" + call + ": " + system_text(error) +
                  "). It has to be the same user's, and a descendant where kernel.yama.ptrace_scope is 1; "
                  "otherwise pass the descriptor itself on.");
}

int take(int process, int descriptor) {
  if (process < 0) return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return static_cast<int>(syscall(SYS_pidfd_getfd, process, descriptor, 0));
}

}  // namespace

Descriptor::Descriptor(int number) : number_(number) {
  if (number >= 0) fcntl(number, F_SETFD, FD_CLOEXEC);
}

void Descriptor::close() {
  if (number_ >= 0) ::close(number_);
  number_ = -1;
}

ExportedDescriptor::ExportedDescriptor(Descriptor descriptor)
    : descriptor_(std::move(descriptor)),
      address_{getpid(), descriptor_.number(), -1, make_token()},
      witness_(make_witness(address_.token)) {
  address_.witness = witness_.number();
}

Descriptor fetch_descriptor(const DescriptorAddress& address) {
  const bool own = address.process == getpid();
  const Descriptor process(own ? -1 : static_cast<int>(syscall(SYS_pidfd_open, address.process, 0)));
  if (!own && process.number() < 0) {
    if (errno == ESRCH || errno == EINVAL) fail_gone(address);
    fail_refused(address, "pidfd_open", errno);
  }
  // The witness is closed first and looked at last: while it is there, so was the other one.
  Descriptor wanted(take(process.number(), address.descriptor));
  const int error = errno;
  const Descriptor witness(wanted.number() < 0 ? -1 : take(process.number(), address.witness));
  if (wanted.number() < 0 && error != EBADF && error != ESRCH) fail_refused(address, "pidfd_getfd", error);
  if (read_witness(witness.number()) != address.token) fail_gone(address);
  return wanted;
}

}  // namespace cudalloc
