/* The side of DPDK: see dunlin_dpdk.h. */
#define _GNU_SOURCE
#include "dunlin_dpdk.h"

#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_alarm.h>
#include <rte_bus_vdev.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_version.h>

/* Entries of a ring, and buffers beside those that rings hold: bursts and a cache for each queue. */
#define RING 1024
#define BESIDE 512
#define CACHE 256
#define BURST 64
#define TEXT 768
/* Sleeps of 10 us until a worker that does not leave a device is waited for no more: 1 s. */
#define HOLD_TURNS 100000
#define PAUSE_US 1000

/* Of each queue, which one thread uses. */
struct queue {
	/* Whether the thread is in a call of memif's driver. */
	uint8_t is_busy;
	/* If its device may interrupt, a descriptor of epoll; or 0. */
	int waiting;
	uint64_t segmented;
} __rte_cache_aligned;

/* Of each device. */
struct port {
	struct rte_mempool *pool;
	uint32_t buffers;
	uint16_t count;
	uint8_t is_virtual;
	uint8_t is_memif;
	volatile uint8_t is_gone;
	uint8_t interrupts;
	struct queue queues[RTE_MAX_QUEUES_PER_PORT];
};

static struct port ports[RTE_MAX_ETHPORTS];
static __thread char problem_text[2 * TEXT];

/* Whether no worker may enter memif's driver. */
static uint8_t is_held;

static void end_hold(void *argument)
{
	(void)argument;
	__atomic_store_n(&is_held, 0, __ATOMIC_RELEASE);
}

/* The driver of memif unmaps the rings of a peer that ends, in the thread of interrupts, also while
 * a worker reads them. So no worker is in it while that thread handles what came from a peer: from
 * its first line of the log, which is before all else, to the next alarm, which the same thread
 * runs afterwards. */
static void hold_workers(void)
{
	if (is_held || rte_eal_alarm_set(1, end_hold, NULL) != 0)
		return;
	__atomic_store_n(&is_held, 1, __ATOMIC_SEQ_CST);
	unsigned int turns = 0;
	for (unsigned int port = 0; port < RTE_MAX_ETHPORTS; port++)
		for (unsigned int queue = 0; queue < ports[port].count; queue++)
			while (__atomic_load_n(&ports[port].queues[queue].is_busy, __ATOMIC_SEQ_CST)
				&& turns++ < HOLD_TURNS)
				rte_delay_us_sleep(10);
}

static inline void leave(struct queue *queue)
{
	__atomic_store_n(&queue->is_busy, 0, __ATOMIC_RELEASE);
}

/* Begins a call of memif's driver, once none is held. */
static inline void enter(struct queue *queue)
{
	__atomic_store_n(&queue->is_busy, 1, __ATOMIC_SEQ_CST);
	while (unlikely(__atomic_load_n(&is_held, __ATOMIC_SEQ_CST))) {
		leave(queue);
		while (__atomic_load_n(&is_held, __ATOMIC_RELAXED))
			rte_pause();
		__atomic_store_n(&queue->is_busy, 1, __ATOMIC_SEQ_CST);
	}
}

static sem_t paused, resumed;

static void pause_here(void *argument)
{
	/* Here nothing of a peer is handled. */
	end_hold(argument);
	sem_post(&paused);
	while (sem_wait(&resumed) != 0)
		;
}

/* Has the thread of interrupts wait meanwhile; 0: it does not. Memif's driver has no lock against
 * it for devices that are opened and closed. It is some time until then, in which that thread
 * comes to the end of what it has read of: among that may be a descriptor that was just closed,
 * and whose number a new one would have. */
static int pause_interrupts(int is_memif)
{
	if (!is_memif || rte_eal_alarm_set(PAUSE_US, pause_here, NULL) != 0)
		return 0;
	while (sem_wait(&paused) != 0)
		;
	return 1;
}

static void resume_interrupts(int is_paused)
{
	if (is_paused)
		sem_post(&resumed);
}

/* The last lines that DPDK logged: most say why a call failed. */
static char logged[TEXT];
static size_t logged_len;

static ssize_t record_log(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	if (rte_thread_is_intr())
		hold_workers();
	if (rte_log_cur_msg_loglevel() > (int)RTE_LOG_WARNING)
		return (ssize_t)len;
	size_t used = len < TEXT / 2 ? len : TEXT / 2;
	if (logged_len + used >= sizeof(logged)) {
		size_t kept = sizeof(logged) / 2 < logged_len ? sizeof(logged) / 2 : logged_len;
		memmove(logged, logged + logged_len - kept, kept);
		logged_len = kept < sizeof(logged) - used ? kept : 0;
	}
	memcpy(logged + logged_len, text, used);
	logged_len += used;
	return (ssize_t)len;
}

/* Notes why a call fails, on one line; returns -1. */
__attribute__((format(printf, 1, 2)))
static int fail(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	int len = vsnprintf(problem_text, TEXT, format, arguments);
	va_end(arguments);
	size_t at = (size_t)len < TEXT ? (size_t)len : TEXT - 1;
	if (logged_len > 0)
		at += (size_t)snprintf(problem_text + at, sizeof(problem_text) - at, ": %.*s",
			(int)logged_len, logged);
	if (at >= sizeof(problem_text))
		at = sizeof(problem_text) - 1;
	while (at > 0 && problem_text[at - 1] == '\n')
		problem_text[--at] = 0;
	for (char *end = problem_text; (end = strchr(end, '\n')) != NULL;)
		*end = ' ';
	logged_len = 0;
	return -1;
}

static const char *problem(void)
{
	return problem_text;
}

static int start(int argc, char **argv)
{
	static const cookie_io_functions_t calls = { .write = record_log };
	FILE *log = fopencookie(NULL, "w", calls);
	if (log == NULL)
		return fail("no memory");
	setvbuf(log, NULL, _IONBF, 0);
	rte_openlog_stream(log);
	rte_log_set_global_level(RTE_LOG_WARNING);
	logged_len = 0;
	if (rte_eal_init(argc, argv) < 0)
		return fail("DPDK does not start (%s)", rte_strerror(rte_errno));
	rte_log_set_level_pattern("*", RTE_LOG_WARNING);
	rte_log_set_level_pattern("pmd.net.memif", RTE_LOG_DEBUG);
	rte_log_set_global_level(RTE_LOG_DEBUG);
	sem_init(&paused, 0, 0);
	sem_init(&resumed, 0, 0);
	logged_len = 0;
	return 0;
}

static int record_removal(uint16_t port, enum rte_eth_event_type type, void *argument, void *result)
{
	(void)type, (void)argument, (void)result;
	ports[port].is_gone = 1;
	return 0;
}

/* Spreads over the queues by addresses and ports, as far as the device can. */
static int configure(uint16_t port, uint16_t queues, const struct rte_eth_dev_info *info)
{
	struct rte_eth_conf conf = { .intr_conf.rxq = ports[port].interrupts };
	uint64_t spread = info->flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP);
	if (queues > 1 && spread != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf = spread;
	}
	return rte_eth_dev_configure(port, queues, queues, &conf);
}

static int set_up_queues(uint16_t port, uint16_t queues, struct rte_mempool *pool, uint16_t entries[2])
{
	int status = rte_eth_dev_adjust_nb_rx_tx_desc(port, &entries[0], &entries[1]);
	unsigned int socket = (unsigned int)rte_eth_dev_socket_id(port);
	for (uint16_t queue = 0; status == 0 && queue < queues; queue++) {
		status = rte_eth_rx_queue_setup(port, queue, entries[0], socket, NULL, pool);
		if (status == 0)
			status = rte_eth_tx_queue_setup(port, queue, entries[1], socket, NULL);
	}
	return status;
}

/* Configures and starts a device; -1 and why not. */
static int start_device(uint16_t port, uint16_t queues, const struct rte_eth_dev_info *info)
{
	uint16_t entries[2] = { RING, RING };
	int status = configure(port, queues, info);
	if (status != 0)
		return fail("it cannot be configured (%s)", rte_strerror(-status));
	status = set_up_queues(port, queues, ports[port].pool, entries);
	if (status != 0)
		return fail("its queues cannot be set up (%s)", rte_strerror(-status));
	status = rte_eth_dev_start(port);
	if (status != 0)
		return fail("it does not start (%s)", rte_strerror(-status));
	return 0;
}

/* Gives a device an Ethernet address, or has it receive what is sent to any; or reads its own. */
static int set_address(uint16_t port, uint8_t mac[6])
{
	struct rte_ether_addr address;
	memcpy(address.addr_bytes, mac, sizeof(address.addr_bytes));
	if (rte_is_zero_ether_addr(&address)) {
		if (rte_eth_macaddr_get(port, &address) == 0)
			memcpy(mac, address.addr_bytes, sizeof(address.addr_bytes));
		return 0;
	}
	if (rte_eth_dev_default_mac_addr_set(port, &address) == 0)
		return 0;
	int status = rte_eth_promiscuous_enable(port);
	/* What has no such filter passes all that its peer sends. */
	if (status == 0 || ports[port].is_virtual)
		return 0;
	return fail("it takes no other Ethernet address (%s)", rte_strerror(-status));
}

static void stop(uint16_t port)
{
	for (unsigned int queue = 0; queue < ports[port].count; queue++) {
		int waiting = ports[port].queues[queue].waiting;
		if (waiting == 0)
			continue;
		rte_eth_dev_rx_intr_ctl_q(port, (uint16_t)queue, waiting, RTE_INTR_EVENT_DEL, NULL);
		close(waiting);
	}
	rte_eth_dev_stop(port);
	struct rte_eth_dev_info info;
	int known = rte_eth_dev_info_get(port, &info);
	rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_RMV, record_removal, NULL);
	char name[RTE_ETH_NAME_MAX_LEN];
	int named = rte_eth_dev_get_name_by_port(port, name);
	rte_eth_dev_close(port);
	if (known == 0 && named == 0 && ports[port].is_virtual)
		rte_vdev_uninit(name);
	rte_mempool_free(ports[port].pool);
	memset(&ports[port], 0, sizeof(ports[port]));
}

static void release(uint16_t port)
{
	int is_paused = pause_interrupts(ports[port].is_memif);
	stop(port);
	resume_interrupts(is_paused);
}

static int begin(uint16_t port, uint16_t queues, struct dunlin_device *device)
{
	struct rte_eth_dev_info info;
	int status = rte_eth_dev_info_get(port, &info);
	if (status != 0)
		return fail("it tells nothing of itself (%s)", rte_strerror(-status));
	uint16_t most = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	most = RTE_MIN(most, RTE_MAX_QUEUES_PER_PORT);
	snprintf(device->driver, sizeof(device->driver), "%s", info.driver_name);
	device->port = port;
	device->queues_max = most;
	if (queues > most) {
		logged_len = 0;
		return fail("there are %u workers, and it has %u queue%s", queues, most, most == 1 ? "" : "s");
	}
	ports[port].count = queues;
	uint32_t buffers = queues * (2u * RING + BESIDE) + CACHE;
	char name[RTE_MEMPOOL_NAMESIZE];
	snprintf(name, sizeof(name), "dunlin-%u", port);
	struct rte_mempool *pool = rte_pktmbuf_pool_create(name, buffers, CACHE, 0,
		RTE_MBUF_DEFAULT_BUF_SIZE, rte_eth_dev_socket_id(port));
	if (pool == NULL)
		return fail("there is no memory for its %u buffers of %u bytes (%s)", buffers,
			RTE_MBUF_DEFAULT_BUF_SIZE, rte_strerror(rte_errno));
	ports[port].pool = pool;
	ports[port].buffers = buffers;
	rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, record_removal, NULL);
	/* Some devices start without interrupts alone. */
	ports[port].interrupts = 1;
	if (start_device(port, queues, &info) != 0) {
		logged_len = 0;
		ports[port].interrupts = 0;
		if (start_device(port, queues, &info) != 0)
			return -1;
	}
	/* Not every device has this filter. */
	(void)rte_eth_allmulticast_enable(port);
	if (set_address(port, device->mac) != 0)
		return -1;
	if (rte_eth_dev_get_mtu(port, &device->mtu) != 0)
		device->mtu = RTE_ETHER_MTU;
	return 0;
}

static int is_memif(const char *name)
{
	return strncmp(name, "net_memif", strlen("net_memif")) == 0;
}

static int make(const char *name, const char *arguments, uint16_t queues,
	struct dunlin_device *device)
{
	uint16_t port;
	int is_virtual = strchr(name, ':') == NULL;
	if (is_virtual) {
		int status = rte_vdev_init(name, arguments);
		if (status != 0)
			return fail("it cannot be made (%s)", rte_strerror(-status));
	}
	if (rte_eth_dev_get_port_by_name(name, &port) != 0) {
		if (is_virtual)
			rte_vdev_uninit(name);
		return fail("DPDK finds no such network device, or no driver for it");
	}
	memset(&ports[port], 0, sizeof(ports[port]));
	ports[port].is_virtual = is_virtual;
	ports[port].is_memif = is_memif(name);
	if (begin(port, queues, device) == 0)
		return 0;
	char text[sizeof(problem_text)];
	memcpy(text, problem_text, sizeof(text));
	stop(port);
	memcpy(problem_text, text, sizeof(text));
	return -1;
}

static int open_device(const char *name, const char *arguments, uint16_t queues,
	struct dunlin_device *device)
{
	logged_len = 0;
	device->queues_max = 0;
	int is_paused = pause_interrupts(is_memif(name));
	int status = make(name, arguments, queues, device);
	resume_interrupts(is_paused);
	return status;
}

static int join(void)
{
	if (rte_lcore_id() == LCORE_ID_ANY && rte_thread_register() != 0)
		return fail("a thread cannot join (%s)", rte_strerror(rte_errno));
	return 0;
}

static inline void describe(struct dunlin_frame *frame, struct rte_mbuf *buffer)
{
	frame->buffer = buffer;
	frame->data = rte_pktmbuf_mtod(buffer, uint8_t *);
	frame->len = buffer->data_len;
	frame->room = (uint32_t)buffer->buf_len - buffer->data_off;
}

static uint16_t receive(uint16_t port, uint16_t queue, struct dunlin_frame *frames, uint16_t most)
{
	struct rte_mbuf *buffers[BURST];
	struct queue *own = &ports[port].queues[queue];
	if (unlikely(ports[port].is_gone))
		return 0;
	if (ports[port].is_memif)
		enter(own);
	uint16_t count = rte_eth_rx_burst(port, queue, buffers, RTE_MIN(most, BURST)), whole = 0;
	leave(own);
	for (uint16_t nth = 0; nth < count; nth++) {
		if (unlikely(buffers[nth]->nb_segs != 1)) {
			own->segmented++;
			rte_pktmbuf_free(buffers[nth]);
			continue;
		}
		rte_prefetch0(rte_pktmbuf_mtod(buffers[nth], void *));
		describe(&frames[whole++], buffers[nth]);
	}
	return whole;
}

static uint16_t send_frames(uint16_t port, uint16_t queue, const struct dunlin_frame *frames,
	uint16_t count)
{
	struct rte_mbuf *buffers[BURST];
	count = RTE_MIN(count, BURST);
	for (uint16_t nth = 0; nth < count; nth++) {
		buffers[nth] = frames[nth].buffer;
		buffers[nth]->data_len = (uint16_t)frames[nth].len;
		buffers[nth]->pkt_len = frames[nth].len;
	}
	struct queue *own = &ports[port].queues[queue];
	if (ports[port].is_memif)
		enter(own);
	uint16_t sent = rte_eth_tx_burst(port, queue, buffers, count);
	leave(own);
	if (unlikely(sent < count))
		rte_pktmbuf_free_bulk(buffers + sent, count - sent);
	return sent;
}

static int take(uint16_t port, struct dunlin_frame *frame)
{
	struct rte_mbuf *buffer = rte_pktmbuf_alloc(ports[port].pool);
	if (buffer == NULL)
		return 0;
	describe(frame, buffer);
	return 1;
}

static void give_back(const struct dunlin_frame *frames, uint16_t count)
{
	struct rte_mbuf *buffers[BURST];
	count = RTE_MIN(count, BURST);
	for (uint16_t nth = 0; nth < count; nth++)
		buffers[nth] = frames[nth].buffer;
	rte_pktmbuf_free_bulk(buffers, count);
}

static int count_device(uint16_t port, struct dunlin_counts *counts)
{
	struct rte_eth_stats stats;
	struct rte_eth_link link = { 0 };
	memset(counts, 0, sizeof(*counts));
	counts->is_gone = ports[port].is_gone;
	if (ports[port].pool == NULL || rte_eth_stats_get(port, &stats) != 0)
		return fail("its counters cannot be read");
	counts->received = stats.ipackets;
	counts->sent = stats.opackets;
	counts->missed = stats.imissed;
	counts->errors = stats.ierrors;
	counts->no_buffer = stats.rx_nombuf;
	counts->send_errors = stats.oerrors;
	for (unsigned int queue = 0; queue < ports[port].count; queue++)
		counts->segmented += ports[port].queues[queue].segmented;
	counts->buffers = ports[port].buffers;
	counts->buffers_free = rte_mempool_avail_count(ports[port].pool);
	counts->is_up = rte_eth_link_get_nowait(port, &link) == 0 && link.link_status;
	return 0;
}

static int interrupts(uint16_t port, uint16_t queue)
{
	if (!ports[port].interrupts || rte_eth_dev_rx_intr_ctl_q_get_fd(port, queue) < 0)
		return -1;
	int waiting = epoll_create1(EPOLL_CLOEXEC);
	if (waiting < 0)
		return -1;
	if (rte_eth_dev_rx_intr_ctl_q(port, queue, waiting, RTE_INTR_EVENT_ADD, NULL) != 0) {
		close(waiting);
		return -1;
	}
	ports[port].queues[queue].waiting = waiting;
	return waiting;
}

static int arm(uint16_t port, uint16_t queue)
{
	int status = rte_eth_dev_rx_intr_enable(port, queue);
	/* One that cannot be told always interrupts. */
	if (status != 0 && status != -ENOTSUP)
		return fail("a queue does not interrupt (%s)", rte_strerror(-status));
	return 0;
}

static void disarm(uint16_t port, uint16_t queue)
{
	struct rte_epoll_event events[4];
	(void)rte_eth_dev_rx_intr_disable(port, queue);
	/* Reads what made the descriptor readable. */
	(void)rte_epoll_wait(ports[port].queues[queue].waiting, events, RTE_DIM(events), 0);
}

static const struct dunlin_dpdk calls = {
	.version = DUNLIN_DPDK_VERSION,
	.size = sizeof(calls),
	.release = rte_version,
	.problem = problem,
	.start = start,
	.open = open_device,
	.close = release,
	.join = join,
	.receive = receive,
	.send = send_frames,
	.take = take,
	.give_back = give_back,
	.count = count_device,
	.interrupts = interrupts,
	.arm = arm,
	.disarm = disarm,
};

__attribute__((visibility("default"))) const struct dunlin_dpdk *dunlin_dpdk(void)
{
	return &calls;
}
