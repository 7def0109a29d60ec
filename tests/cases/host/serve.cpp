// Which image and which rules a device gets: `serve MAJOR.MINOR...`, one line each.
#include <cstdio>
#include <cstdlib>

#include "binding_device.cpp"

int main(int count, char** words) {
  namespace binding = tilewright::binding;
  for (int i = 1; i < count; ++i) {
    char* rest = nullptr;
    const int major = static_cast<int>(std::strtol(words[i], &rest, 10));
    const int best = binding::best_image(major, std::atoi(rest + 1));
    if (best < 0) {
      std::puts("none");
      continue;
    }
    const binding::Image& image = binding::kImages[best];
    const char suffix[2] = {image.suffix, '\0'};
    std::printf("%s_%d%d%s %s\n", image.ptx ? "compute" : "sm", image.cc_major, image.cc_minor, suffix,
                binding::arch_name(image.arch));
  }
}
