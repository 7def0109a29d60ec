// What is noted as written, and who finds it: each line a question, 1 for fresh.
#include <cstdio>
#include <thread>

#include "binding_fresh.cpp"

int main() {
  using namespace tilewright::binding;
  unsigned char memory[32][16] = {};
  int anything;
  const auto ask = [&](void* data) {
    View view{"b"};
    view.handle = reinterpret_cast<Handle>(&anything);
    view.data = data;
    return static_cast<int>(take_fresh({&view}));
  };
  View absent{"bias"};
  int streams[17];
  note_written(&streams[0], {{memory[20], 16}});
  std::printf("%d before and past, %d absent\n", ask(memory[19] + 15) + ask(memory[21]), static_cast<int>(take_fresh({&absent})));
  int elsewhere = 0;
  std::thread([&] { elsewhere = ask(memory[20]); }).join();
  std::printf("%d another thread\n", elsewhere);
  std::printf("%d inside\n", ask(memory[20] + 15));
  std::printf("%d again\n", ask(memory[20]));
  note_written(&streams[0], {{memory[21], 0}});
  std::printf("%d nothing written\n", ask(memory[21]));
  note_written(&streams[0], {{memory[22], 16}, {memory[23], 16}});
  note_written(&streams[1], {{memory[24], 16}});
  note_written(&streams[0], {{memory[25], 16}});
  std::printf("%d of an earlier launch, %d of another stream, %d the last\n", ask(memory[22]) + ask(memory[23]),
              ask(memory[24]), ask(memory[25]));
  note_written(&streams[0], {{memory[26], 16}});
  note_result(&streams[0], {memory[27], 16});
  std::printf("%d a result, %d before it\n", ask(memory[27]), ask(memory[26]));
  for (int i = 0; i < 17; ++i) note_written(&streams[i], {{memory[i], 16}});
  std::printf("%d the last of many, %d the first\n", ask(memory[16]), ask(memory[0]));
}
