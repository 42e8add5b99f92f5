"""Deadlines of messages on a TCP socket, for D2TCP in the Linux kernel.

Only the standard library is used. Copy this file into your project:

    import socket, punctual_deadline
    with socket.create_connection(("10.0.0.1", 80)) as connection:
        punctual_deadline.set_deadline(connection, len(message), within=0.020)
        connection.sendall(message)

OSError with ENOPROTOOPT or EOPNOTSUPP: `punctual kernel load` did not run, or the socket was created
by a process outside of the control group that it names.
"""

import struct

LEVEL = 0xD27C
DEADLINE, CLEAR, IMMINENCE, INFO = 1, 2, 3, 4
_INFO = struct.Struct("=IIQqIIIIQII")


def set_deadline(connection, size, within):
    """Declare that the next `size` bytes sent must arrive within so many seconds."""
    connection.setsockopt(LEVEL, DEADLINE, struct.pack("=Qq", size, int(within * 1e6)))


def clear_deadlines(connection):
    """Forget the deadlines of a socket."""
    connection.setsockopt(LEVEL, CLEAR, struct.pack("=I", 0))


def info(connection):
    """Return the state of D2TCP on a socket as a dictionary."""
    fields = _INFO.unpack(connection.getsockopt(LEVEL, INFO, _INFO.size))
    state, messages, bytes_left, left_us, alpha, d, penalty, cuts, d_sum, cwnd, losses = fields
    return {
        "state": ("inactive", "d2tcp", "dctcp")[state],
        "messages": messages,
        "bytes_left": bytes_left,
        "left_us": left_us,
        "alpha": alpha / 2**20,
        "d": d / 2**16,
        "penalty": penalty / 2**20,
        "cuts": cuts,
        "d_mean": d_sum / 2**16 / cuts if cuts else 1.0,
        "cwnd": cwnd,
        "losses": losses,
    }
