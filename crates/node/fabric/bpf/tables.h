// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What the programs call of the kernel, and their tables.
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
// What a table is, as a loader reads it from the types of these members.
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "built for little endian");
#define htons(number) ((__be16)__builtin_bswap16(number))
#define htonl(number) ((__be32)__builtin_bswap32(number))
#define ntohs(number) __builtin_bswap16((__u16)(number))

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*map_update_elem)(void *map, const void *key, const void *value, __u64 flags) =
	(void *)BPF_FUNC_map_update_elem;
static long (*map_delete_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_delete_elem;
static long (*skb_load_bytes)(const void *skb, __u32 offset, void *to, __u32 len) =
	(void *)BPF_FUNC_skb_load_bytes;
static long (*skb_store_bytes)(void *skb, __u32 offset, const void *from, __u32 len, __u64 flags) =
	(void *)BPF_FUNC_skb_store_bytes;
static long (*skb_change_type)(void *skb, __u32 type) = (void *)BPF_FUNC_skb_change_type;
static long (*redirect_peer)(__u32 interface, __u64 flags) = (void *)BPF_FUNC_redirect_peer;
static __u64 (*ktime_get_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*sock_ops_cb_flags_set)(void *ctx, int flags) = (void *)BPF_FUNC_sock_ops_cb_flags_set;

// What the kernel does next: the next program, or what it does without one (TCX_NEXT).
#define NEXT (-1)
#define OUTSIDE 0
#define NOT_IP 0xffffffff
#define FROM_CONTAINER 0
#define TO_CONTAINER 1
#define FRAGMENT_V4 0x3fff
#define BUCKETS 24
#define PACKET_HOST 0
#define TCP_LEN 20
#define TCP_FLAGS 13
#define UDP_LEN 8
#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_ACK 0x10

// An address, IPv4 as ::ffff:a.b.c.d.
struct address {
	__u64 half[2];
};

// Who sends to whom: the interface of a container, and the interface of the other one, OUTSIDE or
// NOT_IP.
struct pair {
	__u32 interface;
	__u32 other;
	__u32 direction;
};

// Packets are those on a wire: what the kernel has not yet cut into segments is counted as such.
struct traffic {
	__u64 frames;
	__u64 packets;
	__u64 bytes;
	__u64 payload;
};

struct connection {
	__u32 local;
	__u32 remote;
};

struct round_trips {
	__u64 number;
	__u64 sum_us;
	__u64 retransmissions;
	// Below 1, 2, 4, 8 .. microseconds.
	__u64 buckets[BUCKETS];
};

// A container that has opted in: its interface here, and its end in its namespace.
struct member {
	__u64 since_ns;
	__u32 interface;
	__u32 mtu;
	__u16 mac[3];
	__u16 gateway[3];
};

struct flow {
	struct address low;
	struct address high;
	__be16 low_port;
	__be16 high_port;
	__u32 protocol;
};

struct flow_state {
	__u64 seen_ns;
	// The interfaces of both ends; 0: the stack has this flow.
	__u32 low;
	__u32 high;
};

enum count {
	PAIRS_FULL,   // not counted: no room for another pair
	SWITCHED,     // packets moved
	TOO_LONG,     // packets of a switched flow that the other end does not accept: the stack has it
	FOREIGN,      // from a member, with an address that is not its own
	FLOWS,        // flows taken
	GIVEN_BACK,   // flows that went to the stack, since an end has changed
	COUNTS
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct address);
	__type(value, __u32);
} addresses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pair);
	__type(value, struct traffic);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct connection);
	__type(value, struct round_trips);
} round_trips SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct address);
	__type(value, struct member);
} members SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct flow);
	__type(value, struct flow_state);
} flows SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct settings {
	// Nanoseconds without a datagram after which a flow of UDP is a new one. 0: nothing is switched.
	__u64 silence_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct settings);
} settings SEC(".maps");

INLINE void add(__u32 which, __u64 number)
{
	__u64 *count = map_lookup_elem(&counts, &which);
	if (count)
		*count += number;
}

INLINE void count(struct __sk_buff *skb, const struct pair *pair, __u32 headers)
{
	__u32 segments = skb->gso_segs > 1 ? skb->gso_segs : 1;
	__u64 payload = headers && skb->len > headers ? skb->len - headers : 0;
	struct traffic *traffic = map_lookup_elem(&pairs, pair);
	if (traffic) {
		traffic->frames += 1;
		traffic->packets += segments;
		traffic->bytes += skb->len;
		traffic->payload += payload;
		return;
	}
	struct traffic first = {1, segments, skb->len, payload};
	if (map_update_elem(&pairs, pair, &first, BPF_NOEXIST)) {
		// Another CPU was faster, or the table is full.
		traffic = map_lookup_elem(&pairs, pair);
		if (!traffic) {
			add(PAIRS_FULL, 1);
			return;
		}
		traffic->frames += 1;
		traffic->packets += segments;
		traffic->bytes += skb->len;
		traffic->payload += payload;
	}
}
