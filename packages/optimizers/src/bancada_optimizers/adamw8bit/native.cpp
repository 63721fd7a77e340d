// One update of AdamW with moments of 8 bits in blocks of 256, in one pass over memory, eight elements at a time.
//
// The dynamic map needs no table of 256 here. Within decade e (0 to 6) it is a straight line over the codes' magnitudes k:
//     10^(e-6) (0.9 (k + X + 1/2) / 2^(e+X) - 0.8),  2^(e+X) <= k + X < 2^(e+X+1),
// X = 0 for the signed map and 1 for the unsigned one, whose decades have twice the codes; 0 stands for 0, and the last
// code for 1. So the exponent of k + X + 1/2 is the decade, and the lines' eight slopes fill one register, from which a
// shuffle picks: comparing with every decade's border took twice the time. Built by native.py.

#include <cmath>
#include <cstdint>
#include <cstring>
#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace {

constexpr int BLOCK = 256, LANES = 8;
typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));

inline Floats all(double x) { return Floats{} + static_cast<float>(x); }
inline Floats magnitude(Floats x) { return (Floats)((Ints)x & 0x7fffffff); }
inline Floats load(const float* p) { Floats x; std::memcpy(&x, p, sizeof x); return x; }
inline Ints load(const int32_t* p) { Ints x; std::memcpy(&x, p, sizeof x); return x; }
inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }
inline void store(int32_t* p, Ints x) { std::memcpy(p, &x, sizeof x); }

// The entries of a table that the three lowest bits of each index name.
inline Floats pick(const Floats& table, Ints index) {
#ifdef __AVX2__
    return (Floats)_mm256_permutevar8x32_ps((__m256)table, (__m256i)index);
#else
    Floats found;
    for (int lane = 0; lane < LANES; ++lane) found[lane] = table[index[lane] & 7];
    return found;
#endif
}

// The dynamic map's lines by decade, there and back; entry 7 is the last code, which stands for 1.
template <int X> struct Map {
    Floats slope, shift;            // value = (k + X + 1/2) slope - shift
    Floats next;                    // above this, a number belongs to the decade after
    Floats steepness, base, last;   // k = min(number * steepness + base, last), rounded down

    Map() {
        double decade = 1e-6;
        for (int e = 0; e < 7; ++e, decade *= 10) {
            const double cells = 1 << (e + X);
            slope[e] = 0.9 * decade / cells;
            shift[e] = 0.8 * decade;
            // The last cell of a decade reaches a little into the next one, whose cells are five times as wide: to the
            // middle between the two neighbours.
            next[e] = e < 6 ? decade * (1 + 0.9 / cells) : 1 - 0.45 / (2 * cells);
            steepness[e] = cells / 0.9 / decade;
            base[e] = cells * 8 / 9 - X;
            last[e] = 2 * cells - 0.5 - X;
        }
        slope[7] = steepness[7] = 0;
        shift[7] = -1;
        next[7] = INFINITY;
        base[7] = last[7] = (1 << (7 + X)) - X;
    }

    // The values that magnitudes of codes stand for.
    Floats decode(Ints k) const {
        const Floats j = __builtin_convertvector(k, Floats) + (X + 0.5f);
        const Ints e = ((Ints)j >> 23) - (127 + X);
        const Floats value = j * pick(slope, e) - pick(shift, e);
        return (Floats)((Ints)value & (k > 0));
    }

    // The magnitudes of the codes nearest to numbers from 0 to 1.
    Ints encode(Floats a) const {
        // A float's bits, read as a whole number, are its logarithm to 0.03 of a decade, never above it. With 0.29 taken
        // away for the borders, which lie up to 0.28 above a power of ten, that is the decade or the one below.
        const double tens = std::log10(2.0);
        const Floats at = __builtin_convertvector((Ints)a, Floats) * static_cast<float>(tens / (1 << 23)) -
                          static_cast<float>(127 * tens - 7 + 0.29);
        Ints e = __builtin_convertvector(at, Ints);
        e = e > 0 ? e : Ints{};
        e -= a > pick(next, e);  // a comparison is -1 where it holds
        const Floats place = a * pick(steepness, e) + pick(base, e), most = pick(last, e);
        const Ints k = __builtin_convertvector(place < most ? place : most, Ints);
        return k & (a > all(0.5e-6 * (0.1 + 0.45 / (1 << X))));
    }
};

// The largest of the lanes, or NaN where any lane ever was one.
inline float top(Floats x, Ints lost) {
    float found = 0;
    for (int i = 0; i < LANES; ++i) {
        if (lost[i]) return NAN;
        found = x[i] > found ? x[i] : found;
    }
    return found;
}

struct Rule {
    float step_size, inverse_root, keep, eps, one_minus_b1, b2, one_minus_b2;
    Map<0> map_m;
    Map<1> map_v;
};

void step_block(float* p, const float* g, uint8_t* m_codes, float* m_scale, uint8_t* v_codes, float* v_scale,
                const Rule& rule) {
    alignas(32) float ms[BLOCK], vs[BLOCK];
    alignas(32) int32_t m_wide[BLOCK], v_wide[BLOCK];  // bytes widen and narrow fastest in loops of their own
    for (int i = 0; i < BLOCK; ++i) m_wide[i] = m_codes[i] - 127;
    for (int i = 0; i < BLOCK; ++i) v_wide[i] = v_codes[i];
    const Floats m_old = all(*m_scale), v_old = all(*v_scale);
    Floats m_top = all(0), v_top = all(0);
    Ints m_lost{}, v_lost{};
    for (int i = 0; i < BLOCK; i += LANES) {
        const Ints code = load(m_wide + i), negative = code >> 31;
        Floats m = (Floats)((Ints)rule.map_m.decode((code ^ negative) - negative) | (negative & INT32_MIN)) * m_old;
        Floats v = rule.map_v.decode(load(v_wide + i)) * v_old;
        const Floats gradient = load(g + i);
        m += (gradient - m) * rule.one_minus_b1;
        v = rule.b2 * v + rule.one_minus_b2 * gradient * gradient;
        Floats root;
        for (int lane = 0; lane < LANES; ++lane) root[lane] = std::sqrt(v[lane]);
        store(p + i, load(p + i) * rule.keep - rule.step_size * m / (root * rule.inverse_root + rule.eps));
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
        const Ints k = rule.map_m.encode(magnitude(m) / m_over), negative = m < all(0);
        const Ints code = ((k ^ negative) - negative) + 127;
        store(m_wide + i, code > 0 ? code : Ints{});  // the map has no -1: its first code stands for that
        const Floats v = load(vs + i);
        const Ints nearest = rule.map_v.encode(v / v_over), least = v > all(0) ? Ints{} + 1 : Ints{};
        store(v_wide + i, nearest > least ? nearest : least);  // never 0 for what is not
    }
    for (int i = 0; i < BLOCK; ++i) m_codes[i] = static_cast<uint8_t>(m_wide[i]);
    for (int i = 0; i < BLOCK; ++i) v_codes[i] = static_cast<uint8_t>(v_wide[i]);
}

}  // namespace

extern "C" void bancada_adamw8bit(float* p, const float* g, uint8_t* m_codes, float* m_scales, uint8_t* v_codes,
                                  float* v_scales, int64_t blocks, int32_t threads, const float* numbers) {
    const Rule rule{numbers[0], 1 / numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], {}, {}};
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t b = 0; b < blocks; ++b) {
        const int64_t at = b * BLOCK;
        step_block(p + at, g + at, m_codes + at, m_scales + b, v_codes + at, v_scales + b, rule);
    }
}
