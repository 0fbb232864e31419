/* What `dunlin` calls of DPDK. The library is compiled for one ABI of DPDK, because receiving and
 * sending are inline functions over tables that change with it; `dunlin` knows this page alone.
 * A change of it is a new DUNLIN_DPDK_VERSION. */
#ifndef DUNLIN_DPDK_H
#define DUNLIN_DPDK_H

#include <stdint.h>

#define DUNLIN_DPDK_VERSION 2u

/* A received frame, or one to be sent: `len` bytes at `data`, of `room`. */
struct dunlin_frame {
	void *buffer;
	uint8_t *data;
	uint32_t len;
	uint32_t room;
};

/* What a device is. */
struct dunlin_device {
	uint16_t port;
	uint16_t queues_max;
	uint16_t mtu;
	uint8_t mac[6];
	char driver[32];
};

/* What a device counted since its start. */
struct dunlin_counts {
	uint64_t received;
	uint64_t sent;
	/* No frame was free in the ring; errors of the device; no buffer was free; sending failed. */
	uint64_t missed;
	uint64_t errors;
	uint64_t no_buffer;
	uint64_t send_errors;
	/* Frames of several buffers, which are dropped. */
	uint64_t segmented;
	/* Buffers that are not in use, and all of them. */
	uint32_t buffers_free;
	uint32_t buffers;
	/* Whether its link is up; whether the device is gone. */
	uint8_t is_up;
	uint8_t is_gone;
};

/* The calls. Those that return an int return 0, or -1 and `problem` tells why. */
struct dunlin_dpdk {
	uint32_t version;
	/* Bytes of this table. */
	uint32_t size;
	/* Such as "DPDK 22.11.11". */
	const char *(*release)(void);
	/* Why the last call failed, with what DPDK logged meanwhile. By the caller of it. */
	const char *(*problem)(void);
	/* Starts the environment with these arguments, once in a process. The thread is bound to a CPU
	 * and serves no queue. */
	int (*start)(int argc, char **argv);
	/* Opens and starts a device: a virtual one with its arguments, or one that `start` has found.
	 * It gets the Ethernet address in the structure; zero: it keeps its own, which is written there. */
	int (*open)(const char *name, const char *arguments, uint16_t queues, struct dunlin_device *);
	/* Stops a device whose queues are used by no thread any more. */
	void (*close)(uint16_t port);
	/* Makes a thread of the caller one of DPDK's; without effect if it is. */
	int (*join)(void);
	/* Receives without waiting, up to `most` frames. */
	uint16_t (*receive)(uint16_t port, uint16_t queue, struct dunlin_frame *, uint16_t most);
	/* Sends; returns how many the device took, the first ones. The others are free again. */
	uint16_t (*send)(uint16_t port, uint16_t queue, const struct dunlin_frame *, uint16_t count);
	/* Takes a free frame; 0: there is none. */
	int (*take)(uint16_t port, struct dunlin_frame *);
	/* Frees frames. */
	void (*give_back)(const struct dunlin_frame *, uint16_t count);
	/* Reads the counters. */
	int (*count)(uint16_t port, struct dunlin_counts *);
	/* A descriptor that is readable once an armed queue has something to receive, until `disarm`; -1:
	 * the device has no such interrupts. It is closed with the device. */
	int (*interrupts)(uint16_t port, uint16_t queue);
	/* Has a queue interrupt when something comes. What came before may not: receive once more. */
	int (*arm)(uint16_t port, uint16_t queue);
	/* Ends that. */
	void (*disarm)(uint16_t port, uint16_t queue);
};

/* The table of this library. */
const struct dunlin_dpdk *dunlin_dpdk(void);

#endif
