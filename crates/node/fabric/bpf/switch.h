// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Whether the switch moves a packet, and where to.
#pragma once
#include "packet.h"

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
