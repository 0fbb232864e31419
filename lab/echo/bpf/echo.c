// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Answers queries with themselves without anybody's being woken: whole UDP datagrams without options
// or tags to one address and port are turned round in their own frame and leave by the interface
// they came by (XDP_TX). Everything else goes on to the kernel as it came.
//
// `make bpf` builds echo.o, which is committed; a test compares the two.
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

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "built for little endian");
#define htons(number) ((__be16)__builtin_bswap16(number))
#define ntohs(number) __builtin_bswap16((__u16)(number))

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;

// Bytes of a DNS header; QR; and the fields that are copied: opcode, RD and CD.
#define HEADER 12
#define QR 0x8000
#define COPIED 0x7910
// Bytes of the longest query over IPv6 that is answered: its checksum is made here.
#define V6_MAX 512

enum count {
	ANSWERED,
	SHORT,
	RESPONSE,
	NO_PEER,
	COUNTS
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTS);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

// Where to answer: IPv4 as ::ffff:a.b.c.d; in the order of the network.
const volatile __u32 address[4];
const volatile __be16 port;

static INLINE int done(__u32 index)
{
	__u64 *counter = map_lookup_elem(&counts, &index);

	if (counter)
		*counter += 1;
	return index == ANSWERED ? XDP_TX : XDP_DROP;
}

static INLINE __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// The sum of a datagram, with its checksum field being zero.
static INLINE __u64 sum(struct udphdr *udp, __u32 len, void *end)
{
	__u16 *word = (void *)udp;
	__u64 total = 0;

	for (__u32 at = 0; at + 1 < V6_MAX + sizeof(*udp); at += 2, word++) {
		if (at + 1 >= len || (void *)(word + 1) > end)
			break;
		total += *word;
	}
	if (len & 1 && (void *)word + 1 <= end)
		total += *(__u8 *)word;
	return total;
}

SEC("xdp")
int dunlin(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *v4 = data + sizeof(*eth);
	struct ipv6hdr *v6 = data + sizeof(*eth);
	unsigned char link[ETH_ALEN];
	struct udphdr *udp;
	__be16 *flags, other;
	__u32 len;

	if (data + sizeof(*eth) > end || eth->h_dest[0] & 1)
		return XDP_PASS;
	if (eth->h_proto == htons(ETH_P_IP)) {
		if ((void *)(v4 + 1) > end || v4->version != 4 || v4->ihl != 5)
			return XDP_PASS;
		if (v4->protocol != IPPROTO_UDP || v4->frag_off & htons(0x3fff))
			return XDP_PASS;
		if (address[0] || address[1] || address[2] != 0xffff0000 || address[3] != v4->daddr)
			return XDP_PASS;
		udp = (void *)(v4 + 1);
		len = ntohs(v4->tot_len) - sizeof(*v4);
	} else if (eth->h_proto == htons(ETH_P_IPV6)) {
		if ((void *)(v6 + 1) > end || v6->version != 6 || v6->nexthdr != IPPROTO_UDP)
			return XDP_PASS;
		for (int i = 0; i < 4; i++)
			if (address[i] != v6->daddr.in6_u.u6_addr32[i])
				return XDP_PASS;
		udp = (void *)(v6 + 1);
		len = ntohs(v6->payload_len);
		if (len > V6_MAX + sizeof(*udp))
			return XDP_PASS;
	} else {
		return XDP_PASS;
	}
	if ((void *)(udp + 1) > end || udp->dest != port || ntohs(udp->len) != len)
		return XDP_PASS;
	if ((void *)udp + len > end || len < sizeof(*udp))
		return XDP_PASS;
	flags = (void *)(udp + 1) + 2;
	if (len < sizeof(*udp) + HEADER || (void *)(udp + 1) + HEADER > end)
		return done(SHORT);
	if (*flags & htons(QR))
		return done(RESPONSE);
	if (!udp->source)
		return done(NO_PEER);
	*flags = (*flags & htons(COPIED)) | htons(QR);
	__builtin_memcpy(link, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, link, ETH_ALEN);
	other = udp->source;
	udp->source = udp->dest;
	udp->dest = other;
	// A sender on this machine may have left the checksum to a device: it is made anew, or left out
	// where that is allowed (RFC 768).
	udp->check = 0;
	if (eth->h_proto == htons(ETH_P_IP)) {
		__be32 ours = v4->daddr;

		// The sum of the header stays what it was.
		v4->daddr = v4->saddr;
		v4->saddr = ours;
	} else {
		struct in6_addr ours = v6->daddr;
		__u64 total = htons(IPPROTO_UDP) + (__u64)v6->payload_len + sum(udp, len, end);

		for (int i = 0; i < 4; i++)
			total += (__u64)ours.in6_u.u6_addr32[i] + v6->saddr.in6_u.u6_addr32[i];
		v6->daddr = v6->saddr;
		v6->saddr = ours;
		udp->check = ~fold(total);
		if (!udp->check)
			udp->check = 0xffff;
	}
	return done(ANSWERED);
}

char licence[] SEC("license") = "GPL";
