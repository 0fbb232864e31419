// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What a packet is, and which flow it belongs to.
#pragma once
#include "tables.h"

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
