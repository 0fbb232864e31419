// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// What looks like a dispatcher of a protocol that is yet to come.
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))

const volatile struct {
	__u8 magic, protocol;
	__u8 more[122];
} conf = {236, 9};

SEC("xdp")
int xdp_dispatcher(struct xdp_md *ctx)
{
	return conf.protocol ? XDP_PASS : XDP_DROP;
}

char licence[] SEC("license") = "GPL";
