/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The list of sockets, the ECN marker, and the law for tests. */
#pragma once
#include "flow.h"

/* One socket, for `punctual kernel status`. */
struct listed {
	__u8 local[16], remote[16];	/* IPv4 in the first 4 bytes; network order */
	__u32 family, tcp_state, netns, rtt_us;
	__u16 local_port, remote_port;	/* host order */
	__u32 unused;
	char name[16];
	struct punctual_info info;
};

SEC("iter/bpf_sk_storage_map")
int list_sockets(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock *sk = ctx->sk;
	struct flow *flow = ctx->value;
	struct listed out = {};
	struct tcp_sock *tp;

	if (!sk || !flow)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	out.family = sk->__sk_common.skc_family;
	out.tcp_state = sk->__sk_common.skc_state;
	out.netns = sk->__sk_common.skc_net.net->ns.inum;
	out.rtt_us = tp->srtt_us >> 3;
	out.local_port = sk->__sk_common.skc_num;
	out.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	if (out.family == AF_INET6) {
		bpf_probe_read_kernel(out.local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_probe_read_kernel(out.remote, 16, &sk->__sk_common.skc_v6_daddr);
	} else {
		bpf_probe_read_kernel(out.local, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_probe_read_kernel(out.remote, 4, &sk->__sk_common.skc_daddr);
	}
	bpf_probe_read_kernel(out.name, 16, tp->inet_conn.icsk_ca_ops->name);
	fill_info(&out.info, tp, flow);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

/* What the ECN marker saw, in packets and bytes. */
struct { __u64 packets, marked, backlog_max; } marks SEC(".bss.marks");

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;

/*
 * Marks packets above a backlog of the device's root queueing discipline. It runs before a packet
 * is queued, so it sees the queue that the packet finds.
 */
SEC("tcx/egress")
int mark(struct __sk_buff *ctx)
{
	struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);
	struct Qdisc *qdisc = skb->dev->qdisc;
	__u32 backlog;

	if (!qdisc)
		return -1;
	backlog = qdisc->qstats.backlog;
	__sync_fetch_and_add(&marks.packets, 1);
	if (backlog > marks.backlog_max)
		marks.backlog_max = backlog;
	if (backlog > settings.mark_bytes && bpf_skb_ecn_set_ce(ctx) == 1)
		__sync_fetch_and_add(&marks.marked, 1);
	return -1;	/* next program */
}

/* The law, for comparison with Rust. */
struct law {
	__u32 alpha, d, marked, acked;
	__u64 bytes, window, rtt_us, left_us;
	__u32 power, next_alpha, imminence, unused;
};

SEC("syscall")
int run_law(struct law *law)
{
	law->power = law_power(law->alpha, law->d);
	law->next_alpha = law_next_alpha(law->alpha, law->marked, law->acked);
	law->imminence = law_imminence(law->bytes, law->window, law->rtt_us, law->left_us);
	return 0;
}
