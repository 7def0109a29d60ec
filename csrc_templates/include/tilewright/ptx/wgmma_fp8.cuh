// Warpgroup matrix multiply-accumulate of fp8 operands, both in shared memory (sm_90a), fp32 accumulators.
#pragma once

#include <cstdint>

namespace tilewright::ptx {

// acc[64 x kN] = x[64 x 32] * y[kN x 32]^T + (keep ? acc : 0) over a warpgroup; an operand is e5m2 where its flag says
// so, else e4m3. Both descriptors are of K-major tiles (wgmma_descriptor_k_major_128b): 32 bytes further is the next 32
// in k. Warp w holds rows 16 w .. 16 w + 15; with g = lane / 4 and t = lane % 4: acc[4 i .. 4 i + 1] row g, columns 8 i
// + 2t, + 1; acc[4 i + 2 .. 4 i + 3] row g + 8.
template <bool kXE5m2, bool kYE5m2, int kN>
struct WgmmaFp8;

#define TILEWRIGHT_WGMMA_FP8_KINDS(N)   \
  N(false, false, "e4m3", "e4m3")       \
  N(false, true, "e4m3", "e5m2")        \
  N(true, false, "e5m2", "e4m3")

#define TILEWRIGHT_WGMMA_FP8_N8(x_e5m2, y_e5m2, x_type, y_type)                                   \
template <>                                                                                       \
struct WgmmaFp8<x_e5m2, y_e5m2, 8> {                                                              \
  static __device__ __forceinline__ void run(float (&acc)[4], uint64_t x, uint64_t y, int keep) { \
    asm volatile(                                                                                 \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %6, 0;\n"                                           \
      "wgmma.mma_async.sync.aligned.m64n8k32.f32." x_type "." y_type " {"                         \
      "%0,%1,%2,%3"                                                                               \
      "}, %4, %5, keep, 1, 1;\n}"                                                                 \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])                                    \
      : "l"(x), "l"(y), "r"(keep));                                                               \
  }                                                                                               \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N8)
#undef TILEWRIGHT_WGMMA_FP8_N8

#define TILEWRIGHT_WGMMA_FP8_N16(x_e5m2, y_e5m2, x_type, y_type)                                          \
template <>                                                                                               \
struct WgmmaFp8<x_e5m2, y_e5m2, 16> {                                                                     \
  static __device__ __forceinline__ void run(float (&acc)[8], uint64_t x, uint64_t y, int keep) {         \
    asm volatile(                                                                                         \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %10, 0;\n"                                                  \
      "wgmma.mma_async.sync.aligned.m64n16k32.f32." x_type "." y_type " {"                                \
      "%0,%1,%2,%3,%4,%5,%6,%7"                                                                           \
      "}, %8, %9, keep, 1, 1;\n}"                                                                         \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]), \
        "+f"(acc[7])                                                                                      \
      : "l"(x), "l"(y), "r"(keep));                                                                       \
  }                                                                                                       \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N16)
#undef TILEWRIGHT_WGMMA_FP8_N16

#define TILEWRIGHT_WGMMA_FP8_N32(x_e5m2, y_e5m2, x_type, y_type)                                              \
template <>                                                                                                   \
struct WgmmaFp8<x_e5m2, y_e5m2, 32> {                                                                         \
  static __device__ __forceinline__ void run(float (&acc)[16], uint64_t x, uint64_t y, int keep) {            \
    asm volatile(                                                                                             \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %18, 0;\n"                                                      \
      "wgmma.mma_async.sync.aligned.m64n32k32.f32." x_type "." y_type " {"                                    \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"                                                 \
      "}, %16, %17, keep, 1, 1;\n}"                                                                           \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),     \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), \
        "+f"(acc[14]), "+f"(acc[15])                                                                          \
      : "l"(x), "l"(y), "r"(keep));                                                                           \
  }                                                                                                           \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N32)
#undef TILEWRIGHT_WGMMA_FP8_N32

#define TILEWRIGHT_WGMMA_FP8_N48(x_e5m2, y_e5m2, x_type, y_type)                                              \
template <>                                                                                                   \
struct WgmmaFp8<x_e5m2, y_e5m2, 48> {                                                                         \
  static __device__ __forceinline__ void run(float (&acc)[24], uint64_t x, uint64_t y, int keep) {            \
    asm volatile(                                                                                             \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %26, 0;\n"                                                      \
      "wgmma.mma_async.sync.aligned.m64n48k32.f32." x_type "." y_type " {"                                    \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23"                 \
      "}, %24, %25, keep, 1, 1;\n}"                                                                           \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),     \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]), \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),             \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23])                                            \
      : "l"(x), "l"(y), "r"(keep));                                                                           \
  }                                                                                                           \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N48)
#undef TILEWRIGHT_WGMMA_FP8_N48

#define TILEWRIGHT_WGMMA_FP8_N64(x_e5m2, y_e5m2, x_type, y_type)                                                       \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 64> {                                                                                  \
  static __device__ __forceinline__ void run(float (&acc)[32], uint64_t x, uint64_t y, int keep) {                     \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %34, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n64k32.f32." x_type "." y_type " {"                                             \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31"                                                                                                        \
      "}, %32, %33, keep, 1, 1;\n}"                                                                                    \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31])                       \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N64)
#undef TILEWRIGHT_WGMMA_FP8_N64

#define TILEWRIGHT_WGMMA_FP8_N96(x_e5m2, y_e5m2, x_type, y_type)                                                       \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 96> {                                                                                  \
  static __device__ __forceinline__ void run(float (&acc)[48], uint64_t x, uint64_t y, int keep) {                     \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %50, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n96k32.f32." x_type "." y_type " {"                                             \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"                                        \
      "}, %48, %49, keep, 1, 1;\n}"                                                                                    \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47])                                                     \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N96)
#undef TILEWRIGHT_WGMMA_FP8_N96

#define TILEWRIGHT_WGMMA_FP8_N112(x_e5m2, y_e5m2, x_type, y_type)                                                \
template <>                                                                                                      \
struct WgmmaFp8<x_e5m2, y_e5m2, 112> {                                                                           \
  static __device__ __forceinline__ void run(float (&acc)[56], uint64_t x, uint64_t y, int keep) {               \
    asm volatile(                                                                                                \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %58, 0;\n"                                                         \
      "wgmma.mma_async.sync.aligned.m64n112k32.f32." x_type "." y_type " {"                                      \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"   \
      "%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53," \
      "%54,%55"                                                                                                  \
      "}, %56, %57, keep, 1, 1;\n}"                                                                              \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]),                      \
        "+f"(acc[6]), "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]),                    \
        "+f"(acc[12]), "+f"(acc[13]), "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]),                \
        "+f"(acc[18]), "+f"(acc[19]), "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]),                \
        "+f"(acc[24]), "+f"(acc[25]), "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]),                \
        "+f"(acc[30]), "+f"(acc[31]), "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]),                \
        "+f"(acc[36]), "+f"(acc[37]), "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]),                \
        "+f"(acc[42]), "+f"(acc[43]), "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]),                \
        "+f"(acc[48]), "+f"(acc[49]), "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]),                \
        "+f"(acc[54]), "+f"(acc[55])                                                                             \
      : "l"(x), "l"(y), "r"(keep));                                                                              \
  }                                                                                                              \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N112)
#undef TILEWRIGHT_WGMMA_FP8_N112

#define TILEWRIGHT_WGMMA_FP8_N128(x_e5m2, y_e5m2, x_type, y_type)                                                      \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 128> {                                                                                 \
  static __device__ __forceinline__ void run(float (&acc)[64], uint64_t x, uint64_t y, int keep) {                     \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %66, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k32.f32." x_type "." y_type " {"                                            \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
      "%57,%58,%59,%60,%61,%62,%63"                                                                                    \
      "}, %64, %65, keep, 1, 1;\n}"                                                                                    \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]),                      \
        "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),                      \
        "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]),                      \
        "+f"(acc[62]), "+f"(acc[63])                                                                                   \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N128)
#undef TILEWRIGHT_WGMMA_FP8_N128

#define TILEWRIGHT_WGMMA_FP8_N160(x_e5m2, y_e5m2, x_type, y_type)                                                      \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 160> {                                                                                 \
  static __device__ __forceinline__ void run(float (&acc)[80], uint64_t x, uint64_t y, int keep) {                     \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %82, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n160k32.f32." x_type "." y_type " {"                                            \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
      "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"                    \
      "}, %80, %81, keep, 1, 1;\n}"                                                                                    \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]),                      \
        "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),                      \
        "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]),                      \
        "+f"(acc[62]), "+f"(acc[63]), "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]),                      \
        "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]), "+f"(acc[71]), "+f"(acc[72]), "+f"(acc[73]),                      \
        "+f"(acc[74]), "+f"(acc[75]), "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]), "+f"(acc[79])                       \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N160)
#undef TILEWRIGHT_WGMMA_FP8_N160

#define TILEWRIGHT_WGMMA_FP8_N192(x_e5m2, y_e5m2, x_type, y_type)                                                      \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 192> {                                                                                 \
  static __device__ __forceinline__ void run(float (&acc)[96], uint64_t x, uint64_t y, int keep) {                     \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %98, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n192k32.f32." x_type "." y_type " {"                                            \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
      "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"   \
      "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"                                                                \
      "}, %96, %97, keep, 1, 1;\n}"                                                                                    \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]),                      \
        "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),                      \
        "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]),                      \
        "+f"(acc[62]), "+f"(acc[63]), "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]),                      \
        "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]), "+f"(acc[71]), "+f"(acc[72]), "+f"(acc[73]),                      \
        "+f"(acc[74]), "+f"(acc[75]), "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]), "+f"(acc[79]),                      \
        "+f"(acc[80]), "+f"(acc[81]), "+f"(acc[82]), "+f"(acc[83]), "+f"(acc[84]), "+f"(acc[85]),                      \
        "+f"(acc[86]), "+f"(acc[87]), "+f"(acc[88]), "+f"(acc[89]), "+f"(acc[90]), "+f"(acc[91]),                      \
        "+f"(acc[92]), "+f"(acc[93]), "+f"(acc[94]), "+f"(acc[95])                                                     \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N192)
#undef TILEWRIGHT_WGMMA_FP8_N192

#define TILEWRIGHT_WGMMA_FP8_N224(x_e5m2, y_e5m2, x_type, y_type)                                                      \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 224> {                                                                                 \
  static __device__ __forceinline__ void run(float (&acc)[112], uint64_t x, uint64_t y, int keep) {                    \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %114, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n224k32.f32." x_type "." y_type " {"                                            \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
      "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"   \
      "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"  \
      "%109,%110,%111"                                                                                                 \
      "}, %112, %113, keep, 1, 1;\n}"                                                                                  \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]),                      \
        "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),                      \
        "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]),                      \
        "+f"(acc[62]), "+f"(acc[63]), "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]),                      \
        "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]), "+f"(acc[71]), "+f"(acc[72]), "+f"(acc[73]),                      \
        "+f"(acc[74]), "+f"(acc[75]), "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]), "+f"(acc[79]),                      \
        "+f"(acc[80]), "+f"(acc[81]), "+f"(acc[82]), "+f"(acc[83]), "+f"(acc[84]), "+f"(acc[85]),                      \
        "+f"(acc[86]), "+f"(acc[87]), "+f"(acc[88]), "+f"(acc[89]), "+f"(acc[90]), "+f"(acc[91]),                      \
        "+f"(acc[92]), "+f"(acc[93]), "+f"(acc[94]), "+f"(acc[95]), "+f"(acc[96]), "+f"(acc[97]),                      \
        "+f"(acc[98]), "+f"(acc[99]), "+f"(acc[100]), "+f"(acc[101]), "+f"(acc[102]), "+f"(acc[103]),                  \
        "+f"(acc[104]), "+f"(acc[105]), "+f"(acc[106]), "+f"(acc[107]), "+f"(acc[108]), "+f"(acc[109]),                \
        "+f"(acc[110]), "+f"(acc[111])                                                                                 \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N224)
#undef TILEWRIGHT_WGMMA_FP8_N224

#define TILEWRIGHT_WGMMA_FP8_N256(x_e5m2, y_e5m2, x_type, y_type)                                                      \
template <>                                                                                                            \
struct WgmmaFp8<x_e5m2, y_e5m2, 256> {                                                                                 \
  static __device__ __forceinline__ void run(float (&acc)[128], uint64_t x, uint64_t y, int keep) {                    \
    asm volatile(                                                                                                      \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %130, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n256k32.f32." x_type "." y_type " {"                                            \
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
      "%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,"   \
      "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,"   \
      "%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,"  \
      "%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"                 \
      "}, %128, %129, keep, 1, 1;\n}"                                                                                  \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]), "+f"(acc[4]), "+f"(acc[5]), "+f"(acc[6]),              \
        "+f"(acc[7]), "+f"(acc[8]), "+f"(acc[9]), "+f"(acc[10]), "+f"(acc[11]), "+f"(acc[12]), "+f"(acc[13]),          \
        "+f"(acc[14]), "+f"(acc[15]), "+f"(acc[16]), "+f"(acc[17]), "+f"(acc[18]), "+f"(acc[19]),                      \
        "+f"(acc[20]), "+f"(acc[21]), "+f"(acc[22]), "+f"(acc[23]), "+f"(acc[24]), "+f"(acc[25]),                      \
        "+f"(acc[26]), "+f"(acc[27]), "+f"(acc[28]), "+f"(acc[29]), "+f"(acc[30]), "+f"(acc[31]),                      \
        "+f"(acc[32]), "+f"(acc[33]), "+f"(acc[34]), "+f"(acc[35]), "+f"(acc[36]), "+f"(acc[37]),                      \
        "+f"(acc[38]), "+f"(acc[39]), "+f"(acc[40]), "+f"(acc[41]), "+f"(acc[42]), "+f"(acc[43]),                      \
        "+f"(acc[44]), "+f"(acc[45]), "+f"(acc[46]), "+f"(acc[47]), "+f"(acc[48]), "+f"(acc[49]),                      \
        "+f"(acc[50]), "+f"(acc[51]), "+f"(acc[52]), "+f"(acc[53]), "+f"(acc[54]), "+f"(acc[55]),                      \
        "+f"(acc[56]), "+f"(acc[57]), "+f"(acc[58]), "+f"(acc[59]), "+f"(acc[60]), "+f"(acc[61]),                      \
        "+f"(acc[62]), "+f"(acc[63]), "+f"(acc[64]), "+f"(acc[65]), "+f"(acc[66]), "+f"(acc[67]),                      \
        "+f"(acc[68]), "+f"(acc[69]), "+f"(acc[70]), "+f"(acc[71]), "+f"(acc[72]), "+f"(acc[73]),                      \
        "+f"(acc[74]), "+f"(acc[75]), "+f"(acc[76]), "+f"(acc[77]), "+f"(acc[78]), "+f"(acc[79]),                      \
        "+f"(acc[80]), "+f"(acc[81]), "+f"(acc[82]), "+f"(acc[83]), "+f"(acc[84]), "+f"(acc[85]),                      \
        "+f"(acc[86]), "+f"(acc[87]), "+f"(acc[88]), "+f"(acc[89]), "+f"(acc[90]), "+f"(acc[91]),                      \
        "+f"(acc[92]), "+f"(acc[93]), "+f"(acc[94]), "+f"(acc[95]), "+f"(acc[96]), "+f"(acc[97]),                      \
        "+f"(acc[98]), "+f"(acc[99]), "+f"(acc[100]), "+f"(acc[101]), "+f"(acc[102]), "+f"(acc[103]),                  \
        "+f"(acc[104]), "+f"(acc[105]), "+f"(acc[106]), "+f"(acc[107]), "+f"(acc[108]), "+f"(acc[109]),                \
        "+f"(acc[110]), "+f"(acc[111]), "+f"(acc[112]), "+f"(acc[113]), "+f"(acc[114]), "+f"(acc[115]),                \
        "+f"(acc[116]), "+f"(acc[117]), "+f"(acc[118]), "+f"(acc[119]), "+f"(acc[120]), "+f"(acc[121]),                \
        "+f"(acc[122]), "+f"(acc[123]), "+f"(acc[124]), "+f"(acc[125]), "+f"(acc[126]), "+f"(acc[127])                 \
      : "l"(x), "l"(y), "r"(keep));                                                                                    \
  }                                                                                                                    \
};
TILEWRIGHT_WGMMA_FP8_KINDS(TILEWRIGHT_WGMMA_FP8_N256)
#undef TILEWRIGHT_WGMMA_FP8_N256

#undef TILEWRIGHT_WGMMA_FP8_KINDS

}  // namespace tilewright::ptx
