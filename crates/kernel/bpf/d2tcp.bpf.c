// SPDX-License-Identifier: MIT OR GPL-2.0-only
// D2TCP for Linux: congestion controls, socket options for deadlines, and an ECN marker.
#include "control.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

static const char fallback[] = "reno";

static __always_inline void init(struct sock *sk, __u32 state)
{
	const struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u8 tcp_state = sk->__sk_common.skc_state;

	if (!(tp->ecn_flags & ECN_NEGOTIATED) && tcp_state != TCP_STATE_LISTEN &&
	    tcp_state != TCP_STATE_CLOSE) {
		/* No marks will come. */
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, (void *)fallback, sizeof(fallback));
		return;
	}
	begin(sk, state);
}

SEC("struct_ops")
void d2tcp_init(__u64 *ctx) { init((struct sock *)ctx[0], PUNCTUAL_D2TCP); }

SEC("struct_ops")
void dctcp_init(__u64 *ctx) { init((struct sock *)ctx[0], PUNCTUAL_DCTCP); }

SEC("struct_ops")
void d2tcp_cong(__u64 *ctx) { handle_ack((struct sock *)ctx[0], PUNCTUAL_D2TCP); }

SEC("struct_ops")
void dctcp_cong(__u64 *ctx) { handle_ack((struct sock *)ctx[0], PUNCTUAL_DCTCP); }

SEC("struct_ops")
void cwnd_event(__u64 *ctx)
{
	int event = ctx[1];

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		handle_mark((struct sock *)ctx[0], event == CA_EVENT_ECN_IS_CE);
}

/* Only reported: cong_control sets the window. */
SEC("struct_ops")
__u32 ssthresh(__u64 *ctx)
{
	return at_least(control_of((struct sock *)ctx[0])->ssthresh, CWND_MIN);
}

SEC("struct_ops")
__u32 undo_cwnd(__u64 *ctx)
{
	struct sock *sk = (struct sock *)ctx[0];

	return at_least(((struct tcp_sock *)sk)->snd_cwnd, control_of(sk)->loss_cwnd);
}

/* The loader may change the names. */
SEC(".struct_ops.link")
struct tcp_congestion_ops d2tcp = {
	.init = (void *)d2tcp_init,
	.ssthresh = (void *)ssthresh,
	.cong_control = (void *)d2tcp_cong,
	.cwnd_event = (void *)cwnd_event,
	.undo_cwnd = (void *)undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "d2tcp",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops pn_dctcp = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)ssthresh,
	.cong_control = (void *)dctcp_cong,
	.cwnd_event = (void *)cwnd_event,
	.undo_cwnd = (void *)undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "pn_dctcp",
};

#include "options.h"
#include "tools.h"
