// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
//
// Another program: counts packets, and passes them.
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int(*name)[value]
#define __type(name, type) type *name

static void *(*map_lookup_elem)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

SEC("xdp")
int NAME(struct xdp_md *ctx)
{
	__u32 first = 0;
	__u64 *count = map_lookup_elem(&seen, &first);

	if (count)
		__sync_fetch_and_add(count, 1);
	return XDP_PASS;
}

char licence[] SEC("license") = "GPL";
