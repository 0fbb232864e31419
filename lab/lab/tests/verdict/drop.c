/* Drops 5 of 100 IPv4 packets, for the campaign of verdicts (cls_bpf; this kernel may lack netem). */
struct __sk_buff;
static unsigned int (*random_u32)(void) = (void *)7; /* bpf_get_prandom_u32, bpf-helpers(7) */

__attribute__((section("classifier"), used)) int drop(struct __sk_buff *packet) {
  (void)packet;
  return random_u32() % 100 < 5 ? 2 /* TC_ACT_SHOT */ : 0 /* TC_ACT_OK */;
}

__attribute__((section("license"), used)) char terms[] = "GPL";
