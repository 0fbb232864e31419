/* The least that a DNS server on kernel sockets does: answers every datagram with itself, QR set.
 * One thread, recvmmsg and sendmmsg, 64 datagrams a call. The lab's echo is held to it.
 *
 *   cc -O2 -o echo echo.c && ./echo ADDRESS PORT     (IPv4)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { BURST = 64, ROOM = 2048, QUEUE = 4 << 20, DNS_HEADER = 12 };

static struct mmsghdr headers[BURST];
static struct iovec vectors[BURST];
static struct sockaddr_in peers[BURST];
static unsigned char buffers[BURST][ROOM];

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int open_socket(const char *address, int port)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_port = htons(port) };
    int queue = QUEUE, fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || inet_pton(AF_INET, address, &own.sin_addr) != 1)
        fail(address);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &queue, sizeof queue))
        fail("SO_RCVBUFFORCE");
    if (bind(fd, (struct sockaddr *)&own, sizeof own))
        fail("bind");
    return fd;
}

int main(int count, char **words)
{
    if (count != 3)
        return 2;
    int fd = open_socket(words[1], atoi(words[2]));
    for (;;) {
        for (int i = 0; i < BURST; i++) {
            vectors[i] = (struct iovec){ buffers[i], ROOM };
            headers[i].msg_hdr = (struct msghdr){ &peers[i], sizeof peers[i], &vectors[i], 1 };
        }
        int got = recvmmsg(fd, headers, BURST, MSG_WAITFORONE, NULL), out = 0;
        if (got < 0 && errno != EINTR)
            fail("recvmmsg");
        for (int i = 0; i < got; i++) {
            if (headers[i].msg_len < DNS_HEADER || buffers[i][2] & 0x80)
                continue;
            buffers[i][2] |= 0x80;
            vectors[i].iov_len = headers[i].msg_len;
            headers[out++] = headers[i];
        }
        if (out > 0 && sendmmsg(fd, headers, out, 0) < 0 && errno != EAGAIN && errno != ENOBUFS)
            fail("sendmmsg");
    }
}
