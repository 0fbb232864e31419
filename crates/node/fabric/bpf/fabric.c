// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Traffic of containers, at the end of their virtual wires that the machine has. `from_container` and
// `to_container` count; `round_trip` notes what TCP measures; `switch_flow` moves packets of a flow
// between two members straight into the other one's namespace. None of them changes or drops a packet
// that is left to the kernel.
//
// `make bpf` builds fabric.o, which is committed; a test compares the two.
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

struct packet {
	struct address from;
	struct address to;
	// Bytes before the header of the transport, and before the payload.
	__u32 transport;
	__u32 payload;
	__be16 from_port;
	__be16 to_port;
	__u8 protocol;
	__u8 is_fragment;
	__u8 flags;
};

INLINE void add(__u32 which, __u64 number)
{
	__u64 *count = map_lookup_elem(&counts, &which);
	if (count)
		*count += number;
}

INLINE void set_v4(struct address *address, __be32 v4)
{
	address->half[0] = 0;
	address->half[1] = (__u64)v4 << 32 | 0xffff0000;
}

INLINE int equal(const struct address *one, const struct address *other)
{
	return one->half[0] == other->half[0] && one->half[1] == other->half[1];
}

// Reads the IP header at an offset. Extension headers of IPv6 are taken for payload.
INLINE int read_ip(struct __sk_buff *skb, __u32 at, int is_v4, struct packet *packet)
{
	if (is_v4) {
		struct iphdr ip;
		if (skb_load_bytes(skb, at, &ip, sizeof(ip)) || ip.ihl < 5)
			return 0;
		set_v4(&packet->from, ip.saddr);
		set_v4(&packet->to, ip.daddr);
		packet->transport = at + ip.ihl * 4;
		packet->protocol = ip.protocol;
		packet->is_fragment = (ip.frag_off & htons(FRAGMENT_V4)) != 0;
		return 1;
	}
	struct ipv6hdr ip;
	if (skb_load_bytes(skb, at, &ip, sizeof(ip)))
		return 0;
	__builtin_memcpy(&packet->from, &ip.saddr, sizeof(packet->from));
	__builtin_memcpy(&packet->to, &ip.daddr, sizeof(packet->to));
	packet->transport = at + sizeof(ip);
	packet->protocol = ip.nexthdr;
	packet->is_fragment = 0;
	return 1;
}

// Reads ports, flags, and where the payload begins.
INLINE void read_transport(struct __sk_buff *skb, struct packet *packet)
{
	__u8 head[TCP_LEN];
	packet->payload = packet->transport;
	packet->from_port = packet->to_port = 0;
	packet->flags = 0;
	if (packet->protocol == IPPROTO_TCP && !skb_load_bytes(skb, packet->transport, head, TCP_LEN)) {
		packet->payload += (head[12] >> 4) * 4;
		packet->flags = head[TCP_FLAGS];
	} else if (packet->protocol == IPPROTO_UDP &&
		   !skb_load_bytes(skb, packet->transport, head, UDP_LEN)) {
		packet->payload += UDP_LEN;
	} else {
		return;
	}
	__builtin_memcpy(&packet->from_port, head, 2);
	__builtin_memcpy(&packet->to_port, head + 2, 2);
}

INLINE int read_packet(struct __sk_buff *skb, struct packet *packet)
{
	int is_v4 = skb->protocol == htons(ETH_P_IP);
	if (skb->vlan_present || (!is_v4 && skb->protocol != htons(ETH_P_IPV6)) ||
	    !read_ip(skb, ETH_HLEN, is_v4, packet))
		return 0;
	// Only the first fragment has ports, and its length does not tell how long the datagram is.
	if (packet->is_fragment) {
		packet->payload = packet->transport;
		packet->from_port = packet->to_port = 0;
		packet->flags = 0;
	} else {
		read_transport(skb, packet);
	}
	return 1;
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

INLINE void count_packet(struct __sk_buff *skb, struct packet *packet, int is_ip, __u32 direction)
{
	struct pair pair = {skb->ifindex, NOT_IP, direction};
	if (is_ip) {
		__u32 *other = map_lookup_elem(
			&addresses, direction == TO_CONTAINER ? &packet->from : &packet->to);
		pair.other = other ? *other : OUTSIDE;
	}
	count(skb, &pair, is_ip ? packet->payload : 0);
}

// The flow of a packet, which is the same for both directions; 1: the sender is the lower end.
INLINE int flow_of(const struct packet *packet, struct flow *flow)
{
	const struct address *from = &packet->from, *to = &packet->to;
	int is_low = from->half[1] != to->half[1] ? from->half[1] < to->half[1]
						  : from->half[0] < to->half[0];
	flow->low = is_low ? *from : *to;
	flow->high = is_low ? *to : *from;
	flow->low_port = is_low ? packet->from_port : packet->to_port;
	flow->high_port = is_low ? packet->to_port : packet->from_port;
	flow->protocol = packet->protocol;
	return is_low;
}

SEC("classifier") int from_container(struct __sk_buff *skb)
{
	struct packet packet = {};
	int is_ip = read_packet(skb, &packet);
	count_packet(skb, &packet, is_ip, FROM_CONTAINER);
	return NEXT;
}

// A datagram that the stack delivers: it may have translated the address of the service that the
// sender wrote to, so it has to see the reply.
INLINE void note_datagram(struct packet *packet)
{
	__u32 zero = 0;
	struct settings *settings_now = map_lookup_elem(&settings, &zero);
	if (!settings_now || !settings_now->silence_ns || packet->protocol != IPPROTO_UDP)
		return;
	if (!map_lookup_elem(&members, &packet->from) || !map_lookup_elem(&members, &packet->to))
		return;
	struct flow flow = {};
	flow_of(packet, &flow);
	struct flow_state state = {ktime_get_ns(), 0, 0};
	map_update_elem(&flows, &flow, &state, BPF_ANY);
}

SEC("classifier") int to_container(struct __sk_buff *skb)
{
	struct packet packet = {};
	int is_ip = read_packet(skb, &packet);
	count_packet(skb, &packet, is_ip, TO_CONTAINER);
	if (is_ip && !packet.is_fragment)
		note_datagram(&packet);
	return NEXT;
}

// Whether a frame from this member is what it may send: its own addresses, to the other member or
// to the next hop.
INLINE int same_mac(const __u16 *one, const __u16 *other)
{
	return one[0] == other[0] && one[1] == other[1] && one[2] == other[2];
}

INLINE int is_own(struct __sk_buff *skb, struct member *from, struct member *to)
{
	__u16 ether[ETH_HLEN / 2];
	if (from->interface != skb->ifindex || skb_load_bytes(skb, 0, ether, ETH_HLEN) ||
	    !same_mac(ether + 3, from->mac))
		return 0;
	return same_mac(ether, to->mac) || same_mac(ether, from->gateway);
}

// Whether the other end takes a packet of this length.
INLINE int fits(struct __sk_buff *skb, struct packet *packet, struct member *to)
{
	__u32 len = skb->gso_size ? packet->payload - ETH_HLEN + skb->gso_size : skb->len - ETH_HLEN;
	return len <= to->mtu;
}

INLINE int deliver(struct __sk_buff *skb, struct packet *packet, struct member *from,
		   struct member *to)
{
	struct pair pair = {to->interface, from->interface, TO_CONTAINER};
	__u16 ether[3] = {to->mac[0], to->mac[1], to->mac[2]};
	if (skb_store_bytes(skb, 0, ether, ETH_ALEN, 0))
		return NEXT;
	count(skb, &pair, packet->payload);
	add(SWITCHED, skb->gso_segs > 1 ? skb->gso_segs : 1);
	skb_change_type(skb, PACKET_HOST);
	return redirect_peer(to->interface, 0);
}

// Whether a packet without an entry begins a flow.
INLINE int is_first(struct packet *packet, struct member *from, struct member *to, __u64 now,
		    __u64 silence)
{
	if (packet->protocol == IPPROTO_TCP)
		return (packet->flags & (FLAG_SYN | FLAG_ACK | FLAG_RST)) == FLAG_SYN;
	// What the stack has delivered to it before it was a member is not known.
	return now - from->since_ns > silence && now - to->since_ns > silence;
}

INLINE int switch_packet(struct __sk_buff *skb, struct packet *packet, __u64 silence)
{
	struct member *to = map_lookup_elem(&members, &packet->to);
	struct member *from = to ? map_lookup_elem(&members, &packet->from) : 0;
	if (!from || from->interface == to->interface)
		return NEXT;
	if (!is_own(skb, from, to)) {
		add(FOREIGN, 1);
		return NEXT;
	}
	struct flow flow = {};
	int is_low = flow_of(packet, &flow);
	__u32 low = is_low ? from->interface : to->interface;
	__u32 high = is_low ? to->interface : from->interface;
	__u64 now = ktime_get_ns();
	int fits_there = fits(skb, packet, to);
	struct flow_state *state = map_lookup_elem(&flows, &flow);
	int is_udp = packet->protocol == IPPROTO_UDP;
	int is_old = state && is_udp && now - state->seen_ns > silence;
	int is_syn = packet->protocol == IPPROTO_TCP && is_first(packet, from, to, now, silence);
	if (!state || is_old || is_syn) {
		if (!is_first(packet, from, to, now, silence) || !fits_there)
			return NEXT;
		struct flow_state first = {now, low, high};
		if (map_update_elem(&flows, &flow, &first, BPF_ANY))
			return NEXT;
		add(FLOWS, 1);
		return deliver(skb, packet, from, to);
	}
	if (!state->low)
		return NEXT;
	if (state->low != low || state->high != high || !fits_there) {
		// From now on the stack has both directions.
		add(fits_there ? GIVEN_BACK : TOO_LONG, 1);
		map_delete_elem(&flows, &flow);
		return NEXT;
	}
	state->seen_ns = now;
	return deliver(skb, packet, from, to);
}

// An error about a packet of a switched flow: the stack knows nothing of that flow.
INLINE int switch_error(struct __sk_buff *skb, struct packet *packet, int is_v4)
{
	__u8 type;
	struct packet about = {};
	if (skb_load_bytes(skb, packet->transport, &type, 1))
		return NEXT;
	int is_error = is_v4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4;
	if (!is_error || !read_ip(skb, packet->transport + 8, is_v4, &about) || about.is_fragment)
		return NEXT;
	__be16 ports[2];
	if ((about.protocol != IPPROTO_TCP && about.protocol != IPPROTO_UDP) ||
	    skb_load_bytes(skb, about.transport, ports, sizeof(ports)))
		return NEXT;
	about.from_port = ports[0];
	about.to_port = ports[1];
	// It goes from one end of the flow to the other.
	if (!equal(&about.from, &packet->to) || !equal(&about.to, &packet->from))
		return NEXT;
	struct member *to = map_lookup_elem(&members, &packet->to);
	struct member *from = to ? map_lookup_elem(&members, &packet->from) : 0;
	if (!from || !is_own(skb, from, to))
		return NEXT;
	struct flow flow = {};
	int is_low = flow_of(packet, &flow);
	flow_of(&about, &flow);
	struct flow_state *state = map_lookup_elem(&flows, &flow);
	if (!state || state->low != (is_low ? from->interface : to->interface) ||
	    state->high != (is_low ? to->interface : from->interface) || !fits(skb, packet, to))
		return NEXT;
	return deliver(skb, packet, from, to);
}

SEC("classifier") int switch_flow(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct settings *now = map_lookup_elem(&settings, &zero);
	struct packet packet = {};
	if (!now || !now->silence_ns || !read_packet(skb, &packet) || packet.is_fragment)
		return NEXT;
	if (packet.protocol == IPPROTO_ICMP || packet.protocol == IPPROTO_ICMPV6)
		return switch_error(skb, &packet, skb->protocol == htons(ETH_P_IP));
	if ((packet.protocol != IPPROTO_TCP && packet.protocol != IPPROTO_UDP) || !packet.from_port)
		return NEXT;
	return switch_packet(skb, &packet, now->silence_ns);
}

INLINE void note_round_trip(struct bpf_sock_ops *ops, int is_retransmission)
{
	struct address local = {}, remote = {};
	if (ops->family == 2) {
		set_v4(&local, ops->local_ip4);
		set_v4(&remote, ops->remote_ip4);
	} else {
		// One word at a time, as the kernel has it read.
		volatile __u32 *here = ops->local_ip6, *there = ops->remote_ip6;
		__u32 words[4] = {here[0], here[1], here[2], here[3]};
		__u32 others[4] = {there[0], there[1], there[2], there[3]};
		__builtin_memcpy(&local, words, sizeof(local));
		__builtin_memcpy(&remote, others, sizeof(remote));
	}
	__u32 *near = map_lookup_elem(&addresses, &local);
	if (!near)
		return;
	__u32 *far = map_lookup_elem(&addresses, &remote);
	struct connection key = {*near, far ? *far : OUTSIDE};
	struct round_trips *trips = map_lookup_elem(&round_trips, &key);
	if (!trips) {
		struct round_trips none = {};
		if (map_update_elem(&round_trips, &key, &none, BPF_NOEXIST)) {
			add(PAIRS_FULL, 1);
			return;
		}
		trips = map_lookup_elem(&round_trips, &key);
		if (!trips)
			return;
	}
	if (is_retransmission) {
		__sync_fetch_and_add(&trips->retransmissions, 1);
		return;
	}
	// Older kernels tell the smoothed time only, in eighths.
	__u32 us = ops->args[0] ? ops->args[0] : ops->srtt_us >> 3;
	__u32 bucket = 0;
#pragma unroll
	for (__u32 bits = us, step = 0; step < BUCKETS - 1; step++, bits >>= 1)
		bucket += bits != 0;
	if (bucket >= BUCKETS)
		return;
	__sync_fetch_and_add(&trips->number, 1);
	__sync_fetch_and_add(&trips->sum_us, us);
	__sync_fetch_and_add(&trips->buckets[bucket], 1);
}

SEC("sockops") int round_trip(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTT_CB_FLAG |
					   BPF_SOCK_OPS_RETRANS_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		note_round_trip(ops, 0);
		break;
	case BPF_SOCK_OPS_RETRANS_CB:
		note_round_trip(ops, 1);
		break;
	}
	return 1;
}

char licence[] SEC("license") = "Dual BSD/GPL";
