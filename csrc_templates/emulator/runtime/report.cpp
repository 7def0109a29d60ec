#include "report.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace tilewright::emulator {

const char* name_of(Detector detector) {
  switch (detector) {
    case Detector::kDeadlock: return "deadlock";
    case Detector::kRace: return "race";
    case Detector::kInFlight: return "in-flight";
    case Detector::kUninitialised: return "uninitialised";
    case Detector::kProxyFence: return "proxy-fence";
    case Detector::kBarrier: return "barrier";
    case Detector::kBounds: return "bounds";
    case Detector::kAlignment: return "alignment";
    case Detector::kDescriptor: return "descriptor";
    case Detector::kWarp: return "warp";
    case Detector::kExited: return "exited";
    case Detector::kRegisters: return "registers";
    case Detector::kTensorMemory: return "tensor-memory";
    case Detector::kCollector: return "collector";
    case Detector::kDependency: return "dependency";
    case Detector::kPadding: return "padding";
    case Detector::kTrap: return "trap";
    case Detector::kUnsupported: return "unsupported";
  }
  return "unknown";
}

std::string format(const char* pattern, ...) {
  va_list arguments, again;
  va_start(arguments, pattern);
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(length), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string describe(const Place& place) {
  if (place.line == 0) return "";
  const char* file = std::strstr(place.file, "tilewright/");
  return format("%s:%d %s", file != nullptr ? file : place.file, place.line, place.function);
}

namespace {

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += format("\\u%04x", c);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

}  // namespace

std::string to_json(const Finding& finding) {
  return format("{\"detector\": %s, \"message\": %s, \"agent\": %s, \"place\": %s, \"address\": %lu}",
                quoted(name_of(finding.detector)).c_str(), quoted(finding.message).c_str(),
                quoted(finding.agent).c_str(), quoted(describe(finding.place)).c_str(),
                reinterpret_cast<unsigned long>(finding.address));
}

}  // namespace tilewright::emulator
