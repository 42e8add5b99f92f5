/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* State of a socket: the congestion control's, in icsk_ca_priv, and its messages with deadlines. */
#pragma once
#include "kernel.h"
#include "law.h"
#include "../include/punctual.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* What the loader may change; src/loader/object.rs knows the layout. */
const volatile struct {
	__u32 d_min, d_max;	/* bounds of d: the simulator's defaults */
	__u32 d_after_miss;	/* d after the deadline */
	__u32 mark_bytes;	/* the marker marks above this backlog */
	char adopted[16];	/* the congestion control that `adopt` gives */
} settings SEC(".rodata.settings") = {
	.d_min = D_ONE / 2,
	.d_max = D_ONE * 2,
	.d_after_miss = D_ONE,
	.mark_bytes = 30 * 1514,
	.adopted = "d2tcp",
};

/* The kernel zeroes icsk_ca_priv (104 bytes) when a socket gets its congestion control. */
struct control {
	__u32 state;		/* enum punctual_state, with MAGIC; anything else: not initialised */
	__u32 alpha;
	/* the window over which alpha is measured */
	__u32 window_end;
	__u32 window_delivered;
	__u32 window_ce;
	/* counters at the previous callback, which need not be the previous ACK */
	__u32 last_delivered;
	__u32 last_ce;
	__u32 last_ca_state;
	/* the window as this program left it: no one else may raise it */
	__u32 cwnd;
	__u32 ssthresh;
	__u32 cut_end;		/* neither cut nor growth until this is acknowledged */
	__u32 cut_rest;		/* part of a packet not yet cut, a multiple of 2^-21 */
	__u32 loss_cwnd;	/* before a loss that may turn out to be none */
	__u32 loss_ssthresh;
	/* receiver */
	__u32 receiver_ce;
	__u32 receiver_next;
	/* statistics */
	__u32 d;
	__u32 penalty;
	__u32 cuts;
	__u32 losses;
	__u64 d_sum;
};
_Static_assert(sizeof(struct control) <= 104, "icsk_ca_priv");
#define MAGIC 0xD27C0000u

struct message {
	__u64 end;		/* value of bytes_acked when it is complete */
	__u64 deadline_ns;	/* CLOCK_MONOTONIC */
};

struct flow {
	__u32 fixed_d;		/* for experiments; 0: from the messages */
	__u32 messages;		/* the first so many of `message`, in order of `end` */
	struct message message[PUNCTUAL_MESSAGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline struct control *control_of(struct sock *sk)
{
	return (struct control *)((struct inet_connection_sock *)sk)->icsk_ca_priv;
}

static __always_inline __u32 clamp_d(__u32 d)
{
	if (d < settings.d_min)
		return settings.d_min;
	return d > settings.d_max ? settings.d_max : d;
}

/* d of one message. */
static __always_inline __u32 message_d(const struct message *message, __u64 acked, __u64 window,
				       __u64 rtt_us, __u64 now)
{
	if (now >= message->deadline_ns)
		return settings.d_after_miss;
	return clamp_d(law_imminence(message->end - acked, window, rtt_us,
				     (message->deadline_ns - now) / 1000));
}

/*
 * d of a socket: the largest of its messages that are not complete, as bytes leave in order and
 * each message must arrive by its own deadline; 1 without any.
 */
static __always_inline __u32 flow_d(const struct flow *flow, const struct tcp_sock *tp, __u32 cwnd)
{
	__u64 acked = tp->bytes_acked, now, window = (__u64)cwnd * tp->mss_cache;
	__u32 rtt_us = tp->srtt_us >> 3, count = flow->messages, d = 0;

	if (flow->fixed_d)
		return flow->fixed_d;
	if (!count || !rtt_us)
		return D_ONE;
	now = bpf_ktime_get_ns();
	for (int i = 0; i < PUNCTUAL_MESSAGES; i++) {
		if (i >= count)
			break;
		if (flow->message[i].end > acked) {
			__u32 own = message_d(&flow->message[i], acked, window, rtt_us, now);

			if (own > d)
				d = own;
		}
	}
	return d ? d : D_ONE;
}
