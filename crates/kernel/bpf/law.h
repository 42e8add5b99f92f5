/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * D2TCP's law in integers: alpha, d and p = alpha^d. Bit for bit the law of the simulator
 * (crates/transports/src/tcp: next_alpha, imminence, power); a test compares the two in the kernel.
 * The functions are global, so that the verifier checks each once and for every argument.
 */
#pragma once
#include "kernel.h"
#include "tables.h"

#define ALPHA_BITS 20
#define ALPHA_ONE (1u << ALPHA_BITS)
#define D_BITS 16
#define D_ONE (1u << D_BITS)
#define TABLE_BITS 30
#define TABLE_ONE (1u << TABLE_BITS)
#define STEP_BITS (TABLE_BITS - 8)
/* g = 1/16 */
#define GAIN (ALPHA_ONE / 16)

static __always_inline __u64 interpolate(const volatile __u32 *table, __u32 x)
{
	__u32 index = (x >> STEP_BITS) & 255;
	__u64 within = x & ((1u << STEP_BITS) - 1);
	__u64 low = table[index], high = table[index + 1];

	return low + (((high - low) * within) >> STEP_BITS);
}

/* p = alpha^d; alpha and p are multiples of 2^-20, d of 2^-16. */
__attribute__((noinline)) __u32 law_power(__u32 alpha, __u32 d)
{
	__u32 top = 0, v = alpha, whole, rest, shift;
	__u64 log, minus_log, exponent, scale;

	if (alpha >= ALPHA_ONE)
		return ALPHA_ONE;
	if (alpha == 0 || d == D_ONE)
		return alpha;
	/* top = floor(log2 alpha) */
	if (v >> 16) { top += 16; v >>= 16; }
	if (v >> 8) { top += 8; v >>= 8; }
	if (v >> 4) { top += 4; v >>= 4; }
	if (v >> 2) { top += 2; v >>= 2; }
	if (v >> 1) top += 1;
	log = interpolate(log2_table, (alpha << ((TABLE_BITS - top) & 31)) - TABLE_ONE);
	minus_log = ((__u64)(ALPHA_BITS - top) << TABLE_BITS) - log;
	exponent = (minus_log * d) >> D_BITS;
	whole = exponent >> TABLE_BITS;
	rest = exponent & (TABLE_ONE - 1);
	scale = TABLE_ONE;
	shift = whole;
	if (rest) {
		scale = interpolate(exp2_table, TABLE_ONE - rest);
		shift = whole + 1;
	}
	shift += TABLE_BITS - ALPHA_BITS;
	if (shift >= 64)
		return 0;
	return (__u32)((scale + (1ull << ((shift - 1) & 63))) >> (shift & 63));
}

/* alpha <- (1 - g) alpha + g * marked / acked */
__attribute__((noinline)) __u32 law_next_alpha(__u32 alpha, __u32 marked, __u32 acked)
{
	__u32 decay = 0;

	if (alpha > ALPHA_ONE)
		alpha = ALPHA_ONE;
	if (alpha) {
		decay = (__u32)(((__u64)GAIN * alpha) >> ALPHA_BITS);
		if (!decay)
			decay = 1;
	}
	if (marked > acked)
		marked = acked;
	alpha -= decay;
	if (acked)
		alpha += (__u32)((__u64)GAIN * marked / acked);
	return alpha < ALPHA_ONE ? alpha : ALPHA_ONE;
}

/* An unsigned number of 128 bits: BPF has no such type. */
struct wide { __u64 high, low; };

static __always_inline struct wide wide_product(__u64 a, __u64 b)
{
	__u64 al = (__u32)a, ah = a >> 32, bl = (__u32)b, bh = b >> 32;
	__u64 middle = ah * bl + ((al * bl) >> 32);	/* cannot overflow */
	__u64 other = al * bh + (__u32)middle;

	return (struct wide){ ah * bh + (middle >> 32) + (other >> 32), a * b };
}

static __always_inline bool wide_less(struct wide a, struct wide b)
{
	return a.high < b.high || (a.high == b.high && a.low < b.low);
}

static __always_inline struct wide wide_difference(struct wide a, struct wide b)
{
	return (struct wide){ a.high - b.high - (a.low < b.low), a.low - b.low };
}

static __always_inline struct wide wide_double(struct wide a)
{
	return (struct wide){ a.high << 1 | a.low >> 63, a.low << 1 };
}

/*
 * d = 4 B rtt / (3 W left), rounded down to a multiple of 2^-16; below 8, at least 8 for a quotient
 * of 8 or more, also where left or W is 0. The caller holds it within bounds.
 */
__attribute__((noinline)) __u32 law_imminence(__u64 bytes, __u64 window, __u64 rtt_us, __u64 left_us)
{
	struct wide rest, divisor, two, four;
	__u32 quotient = 0;

	if (bytes > 1ull << 56)
		bytes = 1ull << 56;
	if (window > 1ull << 56)
		window = 1ull << 56;
	if (rtt_us > 1ull << 32)
		rtt_us = 1ull << 32;
	if (left_us > 1ull << 53)
		left_us = 1ull << 53;
	rest = wide_product(4 * bytes, rtt_us);		/* below 2^91 */
	divisor = wide_product(3 * window, left_us);	/* below 2^111 */
	two = wide_double(divisor);
	four = wide_double(two);
	if (!wide_less(rest, wide_double(four)))
		return 8 << D_BITS;
	if (!wide_less(rest, four)) { rest = wide_difference(rest, four); quotient |= 4; }
	if (!wide_less(rest, two)) { rest = wide_difference(rest, two); quotient |= 2; }
	if (!wide_less(rest, divisor)) { rest = wide_difference(rest, divisor); quotient |= 1; }
	for (int bit = 0; bit < D_BITS; bit++) {
		rest = wide_double(rest);
		quotient <<= 1;
		if (!wide_less(rest, divisor)) {
			rest = wide_difference(rest, divisor);
			quotient |= 1;
		}
	}
	return quotient;
}
