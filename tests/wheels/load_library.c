// Loads _native.so without Python and torch, and asks it what it holds: load_library PATH
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  const char* (*register_torch)(void) = (const char* (*)(void))dlsym(library, "tilewright_register_torch");
  int (*tile_count)(void) = (int (*)(void))dlsym(library, "tilewright_tile_count");
  void (*images)(char*, int) = (void (*)(char*, int))dlsym(library, "tilewright_images");
  if (register_torch == NULL || tile_count == NULL || images == NULL) {
    printf("a function is missing\n");
    return 1;
  }
  // There is no torch in this process: it must refuse, and say why.
  const char* reason = register_torch();
  if (reason == NULL) {
    printf("registered without torch\n");
    return 1;
  }
  char text[1024];
  images(text, sizeof text);
  printf("%d tiles; images %s; without torch: %s\n", tile_count(), text, reason);
  return 0;
}
