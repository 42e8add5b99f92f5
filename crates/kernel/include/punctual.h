/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Deadlines of messages on a TCP socket, for D2TCP in the Linux kernel. One file, no library.
 *
 *	struct punctual_info info;
 *	if (punctual_set_deadline(fd, size, within_us))	   before the message is written
 *		perror("deadline");
 *	write(fd, message, size);
 *	punctual_get_info(fd, &info);
 *
 * The functions return 0, or -1 with errno:
 *	ENOPROTOOPT, EOPNOTSUPP	`punctual kernel load` did not run, or the socket was created by a
 *				process outside the control group that it names
 *	EINVAL			an option, a length or a value that does not exist
 *	EPROTOTYPE		not a TCP socket
 *	ENOBUFS			PUNCTUAL_MESSAGES messages wait already
 */
#ifndef PUNCTUAL_H
#define PUNCTUAL_H
#ifndef __bpf__
#include <linux/types.h>
#endif

#define PUNCTUAL_LEVEL		0xD27C
/* setsockopt: struct punctual_deadline; the next `size` bytes written are a message */
#define PUNCTUAL_DEADLINE	1
/* setsockopt: any 4 bytes of zeros; forgets all messages */
#define PUNCTUAL_CLEAR		2
/* setsockopt: __u32, d as a multiple of 2^-16, for experiments; 0 computes d from deadlines */
#define PUNCTUAL_IMMINENCE	3
/* getsockopt: struct punctual_info */
#define PUNCTUAL_INFO		4

/* Messages of one socket that can wait with a deadline. */
#define PUNCTUAL_MESSAGES	8
/* Largest `size` (bytes) and `within_us` (35 years). */
#define PUNCTUAL_SIZE_MAX	(1ULL << 50)
#define PUNCTUAL_WITHIN_MAX	(1LL << 50)

struct punctual_deadline {
	__u64 size;		/* bytes; a message of 0 bytes is complete at once */
	__s64 within_us;	/* from now; 0 or less: the deadline has passed */
};

/* What drives the socket's congestion window. */
enum punctual_state {
	PUNCTUAL_INACTIVE = 0,	/* another congestion control */
	PUNCTUAL_D2TCP = 1,	/* D2TCP */
	PUNCTUAL_DCTCP = 2,	/* D2TCP's code with d = 1 */
};

struct punctual_info {
	__u32 state;		/* enum punctual_state */
	__u32 messages;		/* with a deadline and bytes not acknowledged */
	__u64 bytes_left;	/* of the first of them */
	__s64 left_us;		/* to its deadline; negative after it */
	__u32 alpha;		/* marked fraction, a multiple of 2^-20 */
	__u32 d;		/* at the last cut, a multiple of 2^-16 */
	__u32 penalty;		/* alpha^d at the last cut, a multiple of 2^-20 */
	__u32 cuts;		/* cuts because of marks */
	__u64 d_sum;		/* sum of d over the cuts */
	__u32 cwnd;		/* packets */
	__u32 losses;		/* recoveries and timeouts that cut the window */
};

#ifndef __bpf__
#include <string.h>
#include <sys/socket.h>

static inline int punctual_set_deadline(int fd, __u64 size, __s64 within_us)
{
	struct punctual_deadline deadline = { size, within_us };

	return setsockopt(fd, PUNCTUAL_LEVEL, PUNCTUAL_DEADLINE, &deadline, sizeof(deadline));
}

static inline int punctual_clear_deadlines(int fd)
{
	__u32 none = 0;

	return setsockopt(fd, PUNCTUAL_LEVEL, PUNCTUAL_CLEAR, &none, sizeof(none));
}

static inline int punctual_get_info(int fd, struct punctual_info *info)
{
	socklen_t length = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return getsockopt(fd, PUNCTUAL_LEVEL, PUNCTUAL_INFO, info, &length);
}
#endif
#endif
