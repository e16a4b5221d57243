// The real loader over stand-in libraries: symbol versions, old drivers, missing functions, the choice of
// runtime. Each case is a process of its own, since libraries stay loaded.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace {

const std::string kStandins = CUDALLOC_STANDINS;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Probe {
  std::map<std::string, std::string> found;
  int exit_status = -1;
  const std::string& operator[](const std::string& key) { return found[key]; }
};

/** Runs the probe with a driver and a runtime of the given folders, and further assignments. */
Probe probe(const std::string& driver, const std::string& runtime, const std::string& environment = "") {
  std::string command = "CUDALLOC_LIBCUDA='" + driver + "' CUDALLOC_LIBCUDART='" + runtime + "' " +
                        environment + " " + CUDALLOC_LOADER_PROBE + " 2>&1";
  Probe result;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  char line[4096];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    std::string text = line;
    if (!text.empty() && text.back() == '\n') text.pop_back();
    const size_t at = text.find('=');
    INFO("output: " << text);
    REQUIRE(at != std::string::npos);
    result.found[text.substr(0, at)] = text.substr(at + 1);
  }
  const int status = pclose(pipe);
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
  CHECK(result.exit_status == 0);
  return result;
}

std::string driver_in(const std::string& folder) { return kStandins + "/" + folder + "/libcuda.so.1"; }
const std::string kRuntime = kStandins + "/runtime/libcudart.so.12";

}  // namespace

TEST_CASE("a current driver with its runtime: everything works, through cudaMalloc") {
  Probe p = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_DEVICES=2");
  CHECK(p["driver_library"] == driver_in("current"));
  CHECK(p["runtime_library"] == kRuntime);
  CHECK(p["driver_version"] == "12040");
  CHECK(p["runtime_version"] == "12040");
  CHECK(p["device_count"] == "2");
  CHECK(p["driver_reason"].empty());
  CHECK(p["runtime_reason"].empty());
  CHECK(p["device_reason"].empty());
  CHECK(p["missing"].empty());
  CHECK(p["malloc"] == "works");
  CHECK(p["virtual_memory"] == "works");
}

TEST_CASE("drivers before 12.0 have one form of cuGetProcAddress, before 11.3 none") {
  for (const char* folder : {"before_12_0", "before_11_3"}) {
    CAPTURE(folder);
    Probe p = probe(driver_in(folder), kRuntime, "CUDALLOC_STANDIN_RUNTIME_VERSION=11020");
    CHECK(p["device_count"] == "1");
    CHECK(p["missing"].empty());
    CHECK(p["malloc"] == "works");
    CHECK(p["virtual_memory"] == "works");
  }
}

TEST_CASE("without the virtual memory functions the rest works and the missing ones are named") {
  for (const char* folder : {"before_10_2", "without_virtual_memory"}) {
    CAPTURE(folder);
    Probe p = probe(driver_in(folder), "");
    CHECK(p["device_count"] == "1");
    CHECK(p["driver_reason"].empty());
    CHECK(contains(p["missing"], "cuMemMap "));
    CHECK(contains(p["missing"], "cuMemAddressReserve "));
    CHECK(p["malloc"] == "works");
    CHECK(p["virtual_memory"] == "missing");
  }
}

TEST_CASE("without the functions for sharing memory everything else works") {
  Probe p = probe(driver_in("without_sharing"), kRuntime);
  CHECK(p["missing"] == "cuMemExportToShareableHandle cuMemImportFromShareableHandle ");
  CHECK(p["driver_reason"].empty());
  CHECK(p["virtual_memory"] == "works");
}

TEST_CASE("a missing function that is needed is named, and there is no device") {
  Probe p = probe(driver_in("without_peer_copies"), kRuntime);
  CHECK(p["device_count"] == "0");
  CHECK(contains(p["driver_reason"], "cuMemcpyPeerAsync"));
  CHECK(!p["device_reason"].empty());
}

TEST_CASE("without a usable runtime memory comes from the driver, and the reason is given") {
  Probe none = probe(driver_in("current"), "");
  CHECK(none["malloc"] == "works");
  CHECK(none["runtime_library"].empty());
  CHECK(!none["runtime_reason"].empty());
  Probe absent = probe(driver_in("current"), kStandins + "/no/libcudart.so.12");
  CHECK(absent["malloc"] == "works");
  CHECK(contains(absent["runtime_reason"], "/no/libcudart.so.12"));
  Probe incomplete = probe(driver_in("current"), kStandins + "/runtime_incomplete/libcudart.so.12");
  CHECK(incomplete["malloc"] == "works");
  CHECK(incomplete["runtime_library"].empty());
  CHECK(contains(incomplete["runtime_reason"], "cudaGetLastError"));
}

TEST_CASE("a runtime of another version: newer than the driver is not used, as new or older is") {
  const std::string runtime_13 = kStandins + "/runtime_13/libcudart.so.13";
  Probe newer = probe(driver_in("current"), runtime_13, "CUDALLOC_STANDIN_RUNTIME_VERSION=13000");
  CHECK(newer["runtime_library"].empty());
  CHECK(contains(newer["runtime_reason"], "13000"));
  CHECK(newer["malloc"] == "works");
  Probe fitting = probe(driver_in("current"), runtime_13,
                        "CUDALLOC_STANDIN_RUNTIME_VERSION=13000 CUDALLOC_STANDIN_DRIVER_VERSION=13010");
  CHECK(fitting["runtime_library"] == runtime_13);
  CHECK(fitting["runtime_version"] == "13000");
  CHECK(fitting["malloc"] == "works");
  Probe older = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_RUNTIME_VERSION=11080");
  CHECK(older["runtime_version"] == "11080");
  CHECK(older["malloc"] == "works");
}

TEST_CASE("no driver, the toolkit's stub, a driver that does not start, no devices") {
  Probe none = probe(kStandins + "/no/libcuda.so.1", kRuntime);
  CHECK(none["device_count"] == "0");
  CHECK(none["driver_library"].empty());
  CHECK(contains(none["driver_reason"], "libcuda.so.1"));
  Probe stub =
      probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_FAIL=cuInit:0:CUDA_ERROR_STUB_LIBRARY");
  CHECK(stub["device_count"] == "0");
  CHECK(contains(stub["driver_reason"], "CUDA_ERROR_STUB_LIBRARY"));
  Probe broken = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_FAIL=cuInit:0:999");
  CHECK(broken["device_count"] == "0");
  CHECK(contains(broken["device_reason"] + broken["driver_reason"], "CUDA_ERROR_UNKNOWN"));
  Probe empty = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_DEVICES=0");
  CHECK(empty["device_count"] == "0");
  CHECK(!empty["device_reason"].empty());
  Probe down =
      probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_FAIL=cuInit:0:CUDA_ERROR_DEINITIALIZED");
  CHECK(down["device_count"] == "0");
  Probe uncounted = probe(driver_in("current"), kRuntime,
                          "CUDALLOC_STANDIN_FAIL=cuDeviceGetCount:0:CUDA_ERROR_NOT_PERMITTED");
  CHECK(uncounted["device_count"] == "0");
  CHECK(contains(uncounted["device_reason"], "CUDA_ERROR_NOT_PERMITTED"));
}

TEST_CASE("a refused reservation and a refused runtime call are what they are") {
  Probe refused = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_LARGEST_RESERVATION=4194304");
  CHECK(refused["malloc"] == "works");
  CHECK(refused["virtual_memory"] == "cuMemAddressReserve");
  Probe unsupported = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_VIRTUAL_MEMORY=0");
  CHECK(unsupported["virtual_memory"] == "cuMemAddressReserve");
  Probe small = probe(driver_in("current"), kRuntime, "CUDALLOC_STANDIN_CAPACITY=1000");
  CHECK(small["malloc"] == "cudaMalloc");
}
