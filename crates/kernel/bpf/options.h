/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Socket options, by programs of a control group. The kernel holds the socket's lock. */
#pragma once
#include "flow.h"

extern void *bpf_rdonly_cast(void *obj, __u32 btf_id) __ksym;

/* Fails the system call with this errno. */
static __always_inline int fail(int error)
{
	bpf_set_retval(-error);
	return 0;
}

/* The kernel's own structure: bpf_tcp_sock has no write_seq. None if this is no TCP socket. */
static __always_inline struct tcp_sock *tcp_of(struct bpf_sock *sk)
{
	if (!sk || !bpf_tcp_sock(sk))
		return NULL;
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* Adds a message that begins where the application writes next. */
static __always_inline int add_message(struct flow *flow, const struct tcp_sock *tp,
				       const struct punctual_deadline *asked)
{
	__u64 acked = tp->bytes_acked, now = bpf_ktime_get_ns();
	__u32 kept = 0, count = flow->messages;
	struct message new;

	if (asked->size > PUNCTUAL_SIZE_MAX || asked->within_us > PUNCTUAL_WITHIN_MAX)
		return EINVAL;
	if (!asked->size)
		return 0;
	new.end = acked + (tp->write_seq - tp->snd_una) + asked->size;
	new.deadline_ns = asked->within_us > 0 ? now + (__u64)asked->within_us * 1000 : now;
	for (int i = 0; i < PUNCTUAL_MESSAGES; i++) {
		if (i >= count)
			break;
		if (flow->message[i].end > acked) {
			flow->message[kept & (PUNCTUAL_MESSAGES - 1)] = flow->message[i];
			kept++;
		}
	}
	flow->messages = kept;
	if (kept >= PUNCTUAL_MESSAGES)
		return ENOBUFS;
	flow->message[kept] = new;
	flow->messages = kept + 1;
	return 0;
}

SEC("cgroup/setsockopt")
int set_option(struct bpf_sockopt *ctx)
{
	struct punctual_deadline *deadline = ctx->optval;
	__u32 *number = ctx->optval;
	void *end = ctx->optval_end;
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp;
	struct flow *flow;
	int error = 0;

	/* A negative length: another load of this program handled it. */
	if (ctx->level != PUNCTUAL_LEVEL || ctx->optlen < 0)
		return 1;
	tp = tcp_of(sk);
	if (!tp)
		return fail(EPROTOTYPE);
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return fail(ENOMEM);
	switch (ctx->optname) {
	case PUNCTUAL_DEADLINE:
		if (ctx->optlen != sizeof(*deadline) || (void *)(deadline + 1) > end)
			return fail(EINVAL);
		error = add_message(flow, tp, deadline);
		break;
	case PUNCTUAL_CLEAR:
		if (ctx->optlen != sizeof(*number) || (void *)(number + 1) > end || *number)
			return fail(EINVAL);
		flow->messages = 0;
		break;
	case PUNCTUAL_IMMINENCE:
		if (ctx->optlen != sizeof(*number) || (void *)(number + 1) > end)
			return fail(EINVAL);
		if (*number && clamp_d(*number) != *number)
			return fail(EINVAL);
		flow->fixed_d = *number;
		break;
	default:
		return fail(EINVAL);
	}
	if (error)
		return fail(error);
	ctx->optlen = -1;	/* handled: do not ask the kernel */
	return 1;
}

/* What the congestion control and the messages of a socket say. */
static __always_inline void fill_info(struct punctual_info *info, const struct tcp_sock *tp,
				      const struct flow *flow)
{
	const struct control *c = (const struct control *)tp->inet_conn.icsk_ca_priv;
	__u64 acked = tp->bytes_acked, now = bpf_ktime_get_ns();
	__u32 state = c->state;

	__builtin_memset(info, 0, sizeof(*info));
	info->cwnd = tp->snd_cwnd;
	if ((state & 0xffff0000u) == MAGIC) {
		info->state = state & 0xffff;
		info->alpha = c->alpha;
		info->d = c->d;
		info->penalty = c->penalty;
		info->cuts = c->cuts;
		info->d_sum = c->d_sum;
		info->losses = c->losses;
	}
	if (!flow)
		return;
	for (int i = PUNCTUAL_MESSAGES - 1; i >= 0; i--) {
		if (i < flow->messages && flow->message[i].end > acked) {
			info->messages++;
			info->bytes_left = flow->message[i].end - acked;
			info->left_us = (__s64)(flow->message[i].deadline_ns - now);
		}
	}
	/* BPF of this version has no signed division. */
	if (info->left_us < 0)
		info->left_us = -(__s64)((__u64)-info->left_us / 1000);
	else
		info->left_us = (__u64)info->left_us / 1000;
}

SEC("cgroup/getsockopt")
int get_option(struct bpf_sockopt *ctx)
{
	struct punctual_info *out = ctx->optval;
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (ctx->level != PUNCTUAL_LEVEL)
		return 1;
	tp = tcp_of(sk);
	if (!tp)
		return fail(EPROTOTYPE);
	if (ctx->optname != PUNCTUAL_INFO || (void *)(out + 1) > ctx->optval_end)
		return fail(EINVAL);
	fill_info(out, tp, bpf_sk_storage_get(&flows, sk, 0, 0));
	ctx->optlen = sizeof(*out);
	/* clang would merge this store and the next into one that the verifier rejects */
	asm volatile("" ::: "memory");
	ctx->retval = 0;
	return 1;
}

/* Gives connections and listeners of a control group the congestion control, before any SYN. */
SEC("sockops")
int adopt(struct bpf_sock_ops *ctx)
{
	char name[16];

	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	for (int i = 0; i < sizeof(name); i++)
		name[i] = settings.adopted[i];
	bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	return 1;
}
