/* The ceiling for a DNS server on kernel sockets: answers every datagram with itself, QR set.
 *
 * One thread, recvmmsg and sendmmsg, 64 datagrams a call; no parsing, no counting, no signal
 * handling. What a server gets less than this is what the server itself costs.
 *
 *   cc -O2 -o echo echo.c && ./echo [-a ADDRESS] [-p PORT] [-r] [-w NS]     (IPv4; default 0.0.0.0:53)
 *
 * With -r an address stands behind the question, always the same one: as short an answer as there
 * can be, for generators that count answers. -w has it waste so many nanoseconds for each
 * datagram, one after another: a server that is known to be slow, and does not answer in bursts.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 64, ROOM = 2048, QUEUE = 4 << 20, DNS_HEADER = 12 };

static struct mmsghdr headers[BURST];
static struct iovec vectors[BURST];
static struct sockaddr_in peers[BURST];
static unsigned char buffers[BURST][ROOM + 64];

/* The name at byte 12, A, IN, a minute, 192.0.2.1. */
static const unsigned char record[16] = { 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1 };

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_socket(const char *address, int port)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons((unsigned short)port) };
    int queue = QUEUE / 2; /* the kernel doubles it */
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        fail("socket");
    if (inet_pton(AF_INET, address, &own.sin_addr) != 1) {
        fprintf(stderr, "echo: %s is no IPv4 address\n", address);
        exit(2);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof queue) < 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &queue, sizeof queue);
    if (bind(fd, (struct sockaddr *)&own, sizeof own) < 0)
        fail("bind");
    return fd;
}

/* Puts the record behind the question, in place of all that stands there; the length then. */
static unsigned answer(unsigned char *message, unsigned len)
{
    unsigned at = DNS_HEADER;
    while (at < len && message[at])
        at += message[at] + 1u;
    at += 5; /* the root, type and class */
    if (at > len)
        return len;
    memcpy(message + at, record, sizeof record);
    memcpy(message + 6, (unsigned char[]){ 0, 1, 0, 0, 0, 0 }, 6);
    return at + sizeof record;
}

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void waste(long length)
{
    for (long until = now() + length; now() < until;)
        ;
}

static void serve(int fd, int answers, long wasted)
{
    unsigned most = wasted > 0 ? 1 : BURST;
    for (;;) {
        for (int i = 0; i < BURST; i++) {
            vectors[i] = (struct iovec){ buffers[i], ROOM };
            headers[i].msg_hdr = (struct msghdr){ .msg_name = &peers[i],
                .msg_namelen = sizeof peers[i], .msg_iov = &vectors[i], .msg_iovlen = 1 };
        }
        int count = recvmmsg(fd, headers, most, MSG_WAITFORONE, NULL);
        if (count < 0 && errno != EINTR)
            fail("recvmmsg");
        if (wasted > 0)
            waste(wasted);
        for (int i = 0; i < count; i++) {
            vectors[i].iov_len = headers[i].msg_len;
            if (headers[i].msg_len < DNS_HEADER)
                continue;
            buffers[i][2] |= 0x80;
            if (answers)
                vectors[i].iov_len = answer(buffers[i], headers[i].msg_len);
        }
        for (int done = 0; done < count;) {
            int sent = sendmmsg(fd, headers + done, (unsigned)(count - done), 0);
            done += sent > 0 ? sent : 1; /* what cannot be sent is left out */
        }
    }
}

int main(int argc, char **argv)
{
    const char *address = "0.0.0.0";
    int port = 53, answers = 0, option;
    long wasted = 0;
    while ((option = getopt(argc, argv, "a:p:rw:")) != -1) {
        switch (option) {
        case 'a': address = optarg; break;
        case 'p': port = atoi(optarg); break;
        case 'r': answers = 1; break;
        case 'w': wasted = atol(optarg); break;
        default: fprintf(stderr, "usage: echo [-a ADDRESS] [-p PORT] [-r] [-w NS]\n"); return 2;
        }
    }
    serve(open_socket(address, port), answers, wasted);
}
