/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The fields of kernel structures that the programs use. CO-RE relocates them when loading. */
#pragma once
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#define NULL ((void *)0)

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct ns_common { unsigned int inum; };
struct net { struct ns_common ns; };
struct in6_addr_words { __u32 word[4]; };
struct sock_common {
	__u32 skc_daddr, skc_rcv_saddr;
	__u16 skc_dport, skc_num, skc_family;
	volatile unsigned char skc_state;
	struct { struct net *net; } skc_net;
	struct in6_addr_words skc_v6_daddr, skc_v6_rcv_saddr;
};
struct sock {
	struct sock_common __sk_common;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate, sk_max_pacing_rate;
};
struct inet_sock { struct sock sk; };
struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *);
	void (*cwnd_event)(struct sock *, int);
	void (*cong_control)(struct sock *);
	__u32 (*undo_cwnd)(struct sock *);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *);
};
struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	__u8 icsk_ca_state : 5;
	struct { __u8 pending; } icsk_ack;
	__u64 icsk_ca_priv[13];
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una, snd_nxt, rcv_nxt, write_seq, snd_cwnd, snd_ssthresh;
	__u32 delivered, delivered_ce, mss_cache, srtt_us, packets_out;
	__u64 bytes_acked;
	__u8 ecn_flags;
};
struct gnet_stats_queue { __u32 backlog; };
struct Qdisc { struct gnet_stats_queue qstats; };
struct net_device { struct Qdisc *qdisc; };
struct sk_buff { struct net_device *dev; };
struct seq_file;
struct bpf_iter_meta { struct seq_file *seq; };
struct bpf_iter__bpf_sk_storage_map {
	union { struct bpf_iter_meta *meta; };
	union { struct bpf_map *map; };
	union { struct sock *sk; };
	union { void *value; };
};
#pragma clang attribute pop

/* enum tcp_ca_event */
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5
/* enum tcp_ca_state: a loss is being repaired from here on */
#define TCP_CA_Recovery 3
#define TCP_CA_Loss 4
/* tcp_sock.ecn_flags */
#define ECN_DEMAND_CWR 4
#define ECN_NEGOTIATED (1 | 16)	/* RFC 3168, or AccECN since Linux 6.18 */
/* inet_connection_sock.icsk_ack.pending */
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
/* sock.sk_pacing_status */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
/* tcp_congestion_ops.flags */
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CONG_NEEDS_ECN 2

#define TCP_STATE_CLOSE 7
#define TCP_STATE_LISTEN 10
#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define EINVAL 22
#define EPROTOTYPE 91
#define ENOBUFS 105
#define ENOMEM 12
