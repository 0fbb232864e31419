// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Traffic of containers, at the end of their virtual wires that the machine has. `from_container` and
// `to_container` count; `round_trip` notes what TCP measures; `switch_flow` moves packets of a flow
// between two members straight into the other one's namespace. None of them changes or drops a packet
// that is left to the kernel.
//
// `make bpf` builds fabric.o, which is committed; a test compares the two.
#include "packet.h"
#include "switch.h"

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
