// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// A dispatcher of an interface's XDP programs, by libxdp's protocol: it runs up to ten, one after
// another. Each takes the place of one of the functions prog0 to prog9 (freplace).
//
// `make bpf` builds it four times, for protocols 2 and 3 (PROTOCOL), and for packets in one buffer
// or in several (FRAGS); the objects are committed, and a test compares them.
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define COMPONENTS_MAX 10
// What nobody's program tells: a function that is not replaced.
#define NOBODY 31

static long (*adjust_tail)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_tail;

// How it is told what to do. It is the only thing in its section, since that is as long as this.
const volatile struct {
	__u8 magic;
	__u8 protocol;
	__u8 components;
	__u8 has_frags;
	// What a component tells that has the next one run, a bit each.
	__u32 goes_on[COMPONENTS_MAX];
	// For who changes it: their priorities, and how they were loaded.
	__u32 priorities[COMPONENTS_MAX];
	__u32 flags[COMPONENTS_MAX];
#if PROTOCOL == 3
	__u8 is_bound;
#endif
} conf = {};

// A compiler does not know what it tells, and a verifier is told that it may change the packet: what
// takes its place may.
#define COMPONENT(number)                                                                          \
	__attribute__((noinline)) int prog##number(struct xdp_md *ctx)                             \
	{                                                                                          \
		volatile int told = NOBODY;                                                        \
                                                                                                   \
		if (!ctx)                                                                          \
			return XDP_ABORTED;                                                        \
		adjust_tail(ctx, 0);                                                               \
		return told;                                                                       \
	}

COMPONENT(0)
COMPONENT(1)
COMPONENT(2)
COMPONENT(3)
COMPONENT(4)
COMPONENT(5)
COMPONENT(6)
COMPONENT(7)
COMPONENT(8)
COMPONENT(9)

#define RUN(number)                                                                                \
	if (conf.components <= number)                                                             \
		return XDP_PASS;                                                                   \
	told = prog##number(ctx);                                                                  \
	if (!(conf.goes_on[number] >> (told & 31) & 1))                                            \
		return told;

#ifdef FRAGS
SEC("xdp.frags")
#else
SEC("xdp")
#endif
int xdp_dispatcher(struct xdp_md *ctx)
{
	int told;

	RUN(0)
	RUN(1)
	RUN(2)
	RUN(3)
	RUN(4)
	RUN(5)
	RUN(6)
	RUN(7)
	RUN(8)
	RUN(9)
	return XDP_PASS;
}

// The protocol, for who looks for it in the types.
int (*dispatcher_version)[PROTOCOL] SEC("xdp_metadata");

char licence[] SEC("license") = "GPL";
