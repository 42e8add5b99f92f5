/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The congestion control. Everything happens in cong_control, which returns nothing and works on
 * differences of counters: a kernel may skip a callback now and then, and the return value of a
 * skipped one is garbage. So the program keeps its own window, initialises itself when first called
 * and lowers what anyone else raised.
 */
#pragma once
#include "flow.h"

#define SSTHRESH_INFINITE 0x7fffffffu
#define CWND_MIN 2u

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;

static __always_inline bool before(__u32 a, __u32 b) { return (__s32)(a - b) < 0; }
static __always_inline __u32 at_least(__u32 a, __u32 b) { return a > b ? a : b; }
static __always_inline __u32 at_most(__u32 a, __u32 b) { return a < b ? a : b; }

static __always_inline void begin_window(const struct tcp_sock *tp, struct control *c)
{
	c->window_end = tp->snd_nxt;
	c->window_delivered = tp->delivered;
	c->window_ce = tp->delivered_ce;
}

/*
 * Initialises a socket. ssthresh of the kernel's metrics cache is not used: another congestion
 * control may have left it.
 */
static __always_inline void begin(struct sock *sk, __u32 state)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct control *c = control_of(sk);

	c->state = MAGIC | state;
	c->alpha = ALPHA_ONE;
	begin_window(tp, c);
	c->last_delivered = tp->delivered;
	c->last_ce = tp->delivered_ce;
	c->last_ca_state = 0;
	c->cwnd = at_least(tp->snd_cwnd, 1);
	c->ssthresh = SSTHRESH_INFINITE;
	c->cut_end = tp->snd_una;
	c->receiver_next = tp->rcv_nxt;
	c->d = D_ONE;
	c->penalty = ALPHA_ONE;
	/* so that `punctual kernel status` lists the socket */
	bpf_sk_storage_get(&flows, (void *)sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
}

/* The window after a cut: W - W p/2. The fraction of a packet counts in the next cut. */
static __always_inline __u32 cut(struct sock *sk, __u32 cwnd, __u32 state)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct control *c = control_of(sk);
	__u32 d = D_ONE, penalty, packets;
	__u64 amount;

	if (state == PUNCTUAL_D2TCP) {
		struct flow *flow = bpf_sk_storage_get(&flows, (void *)sk, 0, 0);

		if (flow)
			d = flow_d(flow, tp, cwnd);
	}
	penalty = law_power(c->alpha, d);
	amount = (__u64)cwnd * penalty + c->cut_rest;
	c->cut_rest = amount & ((1u << (ALPHA_BITS + 1)) - 1);
	packets = (__u32)(amount >> (ALPHA_BITS + 1));
	c->d = d;
	c->penalty = penalty;
	c->cuts++;
	c->d_sum += d;
	return cwnd > packets + CWND_MIN ? cwnd - packets : CWND_MIN;
}

/* The window that another part of the kernel left, held to what it may do. */
static __always_inline __u32 foreign_window(const struct tcp_sock *tp, struct control *c,
					    __u32 ca_state)
{
	__u32 cwnd = tp->snd_cwnd;

	if (c->last_ca_state >= TCP_CA_Recovery && ca_state < TCP_CA_Recovery) {
		/* The loss was none if the kernel raised the window. */
		if (c->loss_cwnd && cwnd > c->cwnd) {
			c->cwnd = c->loss_cwnd;
			c->ssthresh = c->loss_ssthresh;
		}
		c->loss_cwnd = 0;
	} else if (ca_state < TCP_CA_Recovery && cwnd < c->cwnd) {
		/* The kernel lowers the window of a connection that was idle. */
		c->ssthresh = at_least(c->ssthresh, c->cwnd - c->cwnd / 4);
	}
	return at_least(at_most(cwnd, c->cwnd), 1);
}

/*
 * tcp_update_pacing_rate, which the kernel leaves to a congestion control with cong_control.
 *
 * Packets are paced. Without, a flow's own bursts of two or three packets lift the queue above the
 * threshold: every flow then gets about as many marks whatever its window, alpha is in inverse
 * proportion to the window, all flows cut by as many packets, and an uneven share stays uneven.
 */
static __always_inline void pace(struct sock *sk, const struct tcp_sock *tp, const struct control *c)
{
	__u32 packets = at_least(c->cwnd, tp->packets_out), srtt = tp->srtt_us;
	__u64 rate = (__u64)packets * tp->mss_cache;

	if (rate > 1ull << 40)
		rate = 1ull << 40;
	/* twice the window per RTT in slow start, 1.2 times later; srtt_us is 8 RTT */
	rate *= 8 * (c->cwnd < c->ssthresh / 2 ? 2000000ull : 1200000ull);
	if (srtt)
		rate /= srtt;
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

static __always_inline void handle_ack(struct sock *sk, __u32 state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct control *c = control_of(sk);
	__u32 ca_state = BPF_CORE_READ_BITFIELD((struct inet_connection_sock *)sk, icsk_ca_state);
	__u32 cwnd, acked, ce;

	if (c->state != (MAGIC | state))
		begin(sk, state);
	cwnd = foreign_window(tp, c, ca_state);
	acked = tp->delivered - c->last_delivered;
	ce = tp->delivered_ce - c->last_ce;
	c->last_delivered = tp->delivered;
	c->last_ce = tp->delivered_ce;

	if (!before(tp->snd_una, c->window_end)) {
		c->alpha = law_next_alpha(c->alpha, tp->delivered_ce - c->window_ce,
					  tp->delivered - c->window_delivered);
		begin_window(tp, c);
	}
	if (ca_state >= TCP_CA_Recovery && c->last_ca_state < TCP_CA_Recovery) {
		/* A loss, as in Reno. Marks of this window do not cut again. */
		c->loss_cwnd = c->cwnd;
		c->loss_ssthresh = c->ssthresh;
		c->ssthresh = at_least(c->cwnd / 2, CWND_MIN);
		c->cut_end = tp->snd_nxt;
		c->losses++;
		cwnd = at_most(cwnd, c->ssthresh);
	} else if (ce && ca_state < TCP_CA_Recovery && !before(tp->snd_una, c->cut_end)) {
		cwnd = cut(sk, cwnd, state);
		c->ssthresh = cwnd;
		c->cut_end = tp->snd_nxt;
	}
	c->last_ca_state = ca_state;
	tp->snd_cwnd = cwnd;
	tp->snd_ssthresh = c->ssthresh;
	if (acked && (ca_state == TCP_CA_Loss || !before(tp->snd_una, c->cut_end)))
		tcp_reno_cong_avoid(sk, tp->snd_una, at_most(acked, cwnd));
	c->cwnd = at_least(tp->snd_cwnd, 1);
	pace(sk, tp, c);
}

/* The receiver of RFC 8257, section 3.2: ECE says whether the packets acknowledged were marked. */
static __always_inline void echo(struct tcp_sock *tp, __u32 ce)
{
	if (ce)
		tp->ecn_flags |= ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~ECN_DEMAND_CWR;
}

static __always_inline void handle_mark(struct sock *sk, __u32 ce)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct control *c = control_of(sk);

	if (c->receiver_ce != ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, c->receiver_ce);
			bpf_tcp_send_ack(tp, c->receiver_next);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	c->receiver_next = tp->rcv_nxt;
	c->receiver_ce = ce;
	echo(tp, ce);
}
