//! A port on a kernel UDP socket: recvmmsg and sendmmsg.
