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
// The result of a function that no program replaces.
#define UNREPLACED 31

static long (*adjust_tail)(struct xdp_md *ctx, int delta) = (void *)BPF_FUNC_xdp_adjust_tail;

// The configuration. It is alone in its section, whose length is its size.
const volatile struct {
	__u8 magic;
	__u8 protocol;
	__u8 components;
	__u8 has_frags;
	// The results of a component after which the next one runs, a bit each.
	__u32 goes_on[COMPONENTS_MAX];
	// For programs that change the dispatcher: priorities, and flags of the load.
	__u32 priorities[COMPONENTS_MAX];
	__u32 flags[COMPONENTS_MAX];
#if PROTOCOL == 3
	__u8 is_bound;
#endif
} conf = {};

// The compiler must not know the result, and the verifier must assume that the packet changes, because
// a replacement may change it.
#define COMPONENT(number)                                                                          \
	__attribute__((noinline)) int prog##number(struct xdp_md *ctx)                             \
	{                                                                                          \
		volatile int told = UNREPLACED;                                                    \
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
