// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Lets in what is for us: whole UDP datagrams without options to an address and port that is served,
// on a queue that has a socket. Everything else goes on to the kernel as it came: ARP, ND, ICMP, TCP,
// fragments, options, extension headers, other addresses and ports.
//
// `make bpf` builds filter.o, which is committed; a test compares the two.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE inline __attribute__((always_inline))
// What a table is, as a loader reads it from the types of these members.
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name

// Every CPU with XDP of note has its bytes the other way round than the network.
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "built for little endian");
#define htons(number) ((__be16)__builtin_bswap16(number))
#define ntohs(number) __builtin_bswap16((__u16)(number))

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*redirect_map)(void *map, __u64 key, __u64 otherwise) = (void *)BPF_FUNC_redirect_map;
static long (*fib_lookup)(void *ctx, struct bpf_fib_lookup *way, int len, __u32 flags) =
	(void *)BPF_FUNC_fib_lookup;

#define FAMILY_V4 2
#define FAMILY_V6 10
#define LOOPBACK 1
#define TAGS_MAX 2
// Questions of one CPU of which one is left to the kernel, so that it looks after the next hop.
#define PROBE_ONE_IN 16384
#define ANY_QUEUE 0xffffffff

// An address, IPv4 as ::ffff:a.b.c.d, and a port, all in the order of the network.
struct target {
	__u8 address[16];
	__be16 port;
	__u16 zero;
};

struct tag {
	__be16 number;
	__be16 type;
};

enum count {
	TAKEN,     // let in
	UNCHECKED, // of these: the kernel does not tell which way a reply would go
	ROUTE,     // left to the kernel: a reply goes another way
	NEIGHBOUR, // left to the kernel: it has to find the client first
	LONG,      // left to the kernel: longer than there is room for
	SOCKET,    // left to the kernel: no socket has this queue, or the target is let in by another
	FOREIGN,   // left to the kernel: for another host's link address
	PROBE,     // left to the kernel: it has to look whether the next hop is still there
	FOUND,     // the kernel has the next hop; not reported
	COUNTS
};

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

// Each with the queue that it is let in by, or ANY_QUEUE.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct target);
	__type(value, __u32);
} targets SEC(".maps");

// The other interfaces that a reply may leave by, which are on top of this one, and the tags of frames
// that belong to each: the outer one in the upper half.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u32);
} links SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

// The most bytes of a datagram's payload.
const volatile __u32 room = 1452;
// Whether the kernel is asked which way a reply goes.
const volatile __u32 route_check = 1;
// The interface, and its link address.
const volatile __u32 interface;
const volatile __u16 own[ETH_ALEN / 2];

// Counts one more, and tells how many there are now.
static INLINE __u64 count(__u32 index)
{
	__u64 *counter = map_lookup_elem(&counts, &index);

	return counter ? *counter += 1 : 0;
}

// Whether a frame is for us and no other host: a bridge floods, and who sniffs hears everything.
static INLINE int is_for(const struct ethhdr *eth, const volatile __u16 *ours)
{
	const __u16 *theirs = (const void *)eth->h_dest;

	if (theirs[0] == ours[0] && theirs[1] == ours[1] && theirs[2] == ours[2])
		return 1;
	count(FOREIGN);
	return 0;
}

// Whether what leaves by an interface has these tags on this one. The one without is not looked up.
static INLINE int leaves_with(__u32 tags, __u32 by)
{
	__u32 *expected;

	if (by == interface)
		return tags == 0;
	expected = map_lookup_elem(&links, &by);
	return expected && *expected == tags;
}

// Whether a frame is for us, and a reply to what came with these tags goes back the way it came; its
// next hop is written into the frame as who sent it.
static INLINE int goes_back(struct xdp_md *ctx, struct bpf_fib_lookup *way, struct ethhdr *eth,
				     __u32 tags)
{
	long told;

	if (!route_check)
		return is_for(eth, own);
	way->l4_protocol = IPPROTO_UDP;
	// As if we sent it: what the kernel asks of an interface that forwards is asked of this one.
	way->ifindex = LOOPBACK;
	told = fib_lookup(ctx, way, sizeof(*way), 0);
	if (told == BPF_FIB_LKUP_RET_FWD_DISABLED) {
		if (!is_for(eth, own))
			return 0;
		count(UNCHECKED);
		return 1;
	}
	if (told == BPF_FIB_LKUP_RET_NO_NEIGH) {
		count(NEIGHBOUR);
		return 0;
	}
	if (told != BPF_FIB_LKUP_RET_SUCCESS || !leaves_with(tags, way->ifindex)) {
		count(ROUTE);
		return 0;
	}
	// A tagged network's interface may have a link address of its own.
	if (!is_for(eth, (const void *)way->smac))
		return 0;
	// Who sends to a link address by the kernel has it ask, now and then, whether it still holds.
	if (count(FOUND) % PROBE_ONE_IN == 0) {
		count(PROBE);
		return 0;
	}
	__builtin_memcpy(eth->h_source, way->dmac, ETH_ALEN);
	return 1;
}

static INLINE int judge(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct bpf_fib_lookup way = {};
	struct target target = {};
	struct ethhdr *eth = data;
	struct udphdr *udp;
	__u32 tags = 0, queue = ctx->rx_queue_index, *only;
	__be16 type;
	__u16 len;

	if (data + sizeof(*eth) > end)
		return XDP_PASS;
	// To a group of hosts, whatever address is inside: the kernel knows whether it may be one of ours.
	if (eth->h_dest[0] & 1)
		return XDP_PASS;
	type = eth->h_proto;
	data += sizeof(*eth);
#pragma unroll
	for (int i = 0; i < TAGS_MAX; i++) {
		struct tag *tag = data;

		if (type != htons(ETH_P_8021Q) && type != htons(ETH_P_8021AD))
			break;
		if ((void *)(tag + 1) > end)
			return XDP_PASS;
		tags = tags << 16 | (ntohs(tag->number) & 0xfff);
		type = tag->type;
		data += sizeof(*tag);
	}
	if (type == htons(ETH_P_IP)) {
		struct iphdr *ip = data;

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP)
			return XDP_PASS;
		if (ip->frag_off & htons(0x3fff))
			return XDP_PASS;
		len = ntohs(ip->tot_len) - sizeof(*ip);
		target.address[10] = target.address[11] = 0xff;
		__builtin_memcpy(&target.address[12], &ip->daddr, 4);
		way.family = FAMILY_V4;
		way.ipv4_src = ip->daddr;
		way.ipv4_dst = ip->saddr;
		udp = (void *)(ip + 1);
	} else if (type == htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = data;

		if ((void *)(ip + 1) > end)
			return XDP_PASS;
		if (ip->version != 6 || ip->nexthdr != IPPROTO_UDP)
			return XDP_PASS;
		len = ntohs(ip->payload_len);
		__builtin_memcpy(target.address, &ip->daddr, 16);
		way.family = FAMILY_V6;
		__builtin_memcpy(way.ipv6_src, &ip->daddr, 16);
		__builtin_memcpy(way.ipv6_dst, &ip->saddr, 16);
		udp = (void *)(ip + 1);
	} else {
		return XDP_PASS;
	}
	if ((void *)(udp + 1) > end || ntohs(udp->len) != len || len < sizeof(*udp))
		return XDP_PASS;
	// In several buffers, of which only the first would be received.
	if ((void *)udp + len > end)
		return XDP_PASS;
	target.port = udp->dest;
	only = map_lookup_elem(&targets, &target);
	if (!only)
		return XDP_PASS;
	if (len - sizeof(*udp) > room) {
		count(LONG);
		return XDP_PASS;
	}
	way.sport = udp->dest;
	way.dport = udp->source;
	if ((*only != ANY_QUEUE && *only != queue) || !map_lookup_elem(&sockets, &queue)) {
		count(SOCKET);
		return XDP_PASS;
	}
	if (!goes_back(ctx, &way, eth, tags))
		return XDP_PASS;
	count(TAKEN);
	return redirect_map(&sockets, queue, XDP_PASS);
}

SEC("xdp.frags")
int dunlin(struct xdp_md *ctx)
{
	return judge(ctx);
}

// The same for kernels that know of no packets in several buffers (before Linux 5.18).
SEC("xdp")
int dunlin_whole(struct xdp_md *ctx)
{
	return judge(ctx);
}

// fib_lookup is for programs under the licence of the kernel: of the two above, this one holds there.
char licence[] SEC("license") = "GPL";
