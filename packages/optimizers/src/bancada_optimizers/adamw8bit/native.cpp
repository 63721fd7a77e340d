// One update of AdamW with moments of 8 bits in blocks of 256, in one pass over memory, eight elements at a time.
//
// The dynamic map needs no table here. Within decade e (0 to 6) it is a straight line over the codes' magnitudes k:
//     10^(e-6) (0.9 (k + X + 1/2) / 2^(e+X) - 0.8),  2^(e+X) <= k + X < 2^(e+X+1),
// X = 0 for the signed map and 1 for the unsigned one, whose decades have twice the codes; 0 stands for 0, and the last
// code for 1. Comparisons with constants tell the decade. Built by native.py; nothing but the language is used.

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr int BLOCK = 256, LANES = 8;
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint8_t Bytes __attribute__((vector_size(LANES)));

inline Floats all(double x) { return Floats{} + static_cast<float>(x); }
inline Floats magnitude(Floats x) { return (Floats)((Ints)x & 0x7fffffff); }
inline Floats load(const float* p) { Floats x; std::memcpy(&x, p, sizeof x); return x; }
inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }
inline Ints load_codes(const uint8_t* p) {
    Bytes x;
    std::memcpy(&x, p, sizeof x);
    return __builtin_convertvector(x, Ints);
}
inline void store_codes(uint8_t* p, Ints x) {
    const Bytes codes = __builtin_convertvector(x, Bytes);
    std::memcpy(p, &codes, sizeof codes);
}

constexpr double DECADE[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0};

// The values that magnitudes of codes stand for.
template <int X> inline Floats decode(Floats k) {
    const Floats j = k + (X + 0.5f);
    Floats slope = all(0.9 * DECADE[0] / (1 << X)), shift = all(0.8 * DECADE[0]);
#pragma GCC unroll 6
    for (int e = 1; e < 7; ++e) {
        const Ints above = j > all(1 << (e + X));
        slope = above ? all(0.9 * DECADE[e] / (1 << (e + X))) : slope;
        shift = above ? all(0.8 * DECADE[e]) : shift;
    }
    const Floats value = j > all(1 << (7 + X)) ? all(1) : j * slope - shift;
    return k > all(0) ? value : all(0);
}

// The magnitudes of the codes nearest to numbers from 0 to 1. The last cell of a decade reaches a little into the next
// one, whose cells are five times as wide: to the middle between the two neighbours.
template <int X> inline Ints encode(Floats a) {
    Floats slope = all((1 << X) / 0.9 / DECADE[0]), cells = all(1 << X);
#pragma GCC unroll 6
    for (int e = 1; e < 7; ++e) {
        const Ints above = a > all(DECADE[e] * (0.1 + 0.18 / (1 << (e + X))));
        slope = above ? all((1 << (e + X)) / 0.9 / DECADE[e]) : slope;
        cells = above ? all(1 << (e + X)) : cells;
    }
    const Floats place = a * slope + cells * all(8 / 9.0), last = cells + cells - all(0.5);
    Floats k = (place < last ? place : last) - all(X);
    k = a > all(1 - 0.225 / (1 << (6 + X))) ? all((1 << (7 + X)) - X) : k;
    k = a > all(0.5e-6 * (0.1 + 0.45 / (1 << X))) ? k : all(0);
    return __builtin_convertvector(k, Ints);
}

// The largest of the lanes, or NaN where any lane ever was one.
inline float top(Floats x, Ints lost) {
    float found = 0;
    for (int i = 0; i < LANES; ++i) {
        if (lost[i]) return NAN;
        found = x[i] > found ? x[i] : found;
    }
    return found;
}

struct Numbers { float step_size, root, keep, eps, one_minus_b1, b2, one_minus_b2; };

void step_block(float* p, const float* g, uint8_t* m_codes, float* m_scale, uint8_t* v_codes, float* v_scale,
                const Numbers& n) {
    alignas(32) float ms[BLOCK], vs[BLOCK];
    const Floats m_old = all(*m_scale), v_old = all(*v_scale);
    Floats m_top = all(0), v_top = all(0);
    Ints m_lost{}, v_lost{};
    for (int i = 0; i < BLOCK; i += LANES) {
        const Floats code = __builtin_convertvector(load_codes(m_codes + i) - 127, Floats);
        const Ints sign = (Ints)code & INT32_MIN;
        Floats m = (Floats)((Ints)decode<0>(magnitude(code)) | sign) * m_old;
        Floats v = decode<1>(__builtin_convertvector(load_codes(v_codes + i), Floats)) * v_old;
        const Floats gradient = load(g + i);
        m += (gradient - m) * n.one_minus_b1;
        v = n.b2 * v + n.one_minus_b2 * gradient * gradient;
        Floats root;
        for (int lane = 0; lane < LANES; ++lane) root[lane] = std::sqrt(v[lane]);
        store(p + i, load(p + i) * n.keep - n.step_size * m / (root / n.root + n.eps));
        store(ms + i, m);
        store(vs + i, v);
        const Floats size = magnitude(m);
        m_top = size > m_top ? size : m_top;
        v_top = v > v_top ? v : v_top;
        m_lost |= m != m;
        v_lost |= v != v;
    }
    *m_scale = top(m_top, m_lost);
    *v_scale = top(v_top, v_lost);
    const Floats m_over = all(*m_scale == 0 ? 1 : *m_scale), v_over = all(*v_scale == 0 ? 1 : *v_scale);
    for (int i = 0; i < BLOCK; i += LANES) {
        const Floats m = load(ms + i);
        const Ints k = encode<0>(magnitude(m) / m_over), negative = m < all(0);
        const Ints code = ((k ^ negative) - negative) + 127;
        store_codes(m_codes + i, code > 0 ? code : Ints{});  // the map has no -1: its first code stands for that
        const Floats v = load(vs + i);
        const Ints nearest = encode<1>(v / v_over), least = v > all(0) ? Ints{} + 1 : Ints{};  // never 0 for what is not
        store_codes(v_codes + i, nearest > least ? nearest : least);
    }
}

}  // namespace

extern "C" void bancada_adamw8bit(float* p, const float* g, uint8_t* m_codes, float* m_scales, uint8_t* v_codes,
                                  float* v_scales, int64_t blocks, int32_t threads, const float* numbers) {
    const Numbers n{numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = b * BLOCK;
        step_block(p + at, g + at, m_codes + at, m_scales + b, v_codes + at, v_scales + b, n);
    }
}
