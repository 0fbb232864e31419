/* Asks a DNS server on IPv4 at a steady rate, and tells what became of it and how long it took. With bench/forward.
 *
 *   ask ADDRESS PORT RATE SECONDS hits|unique|zipf NAMES
 *
 *   hits     the names of the file NAMES, one after the other
 *   unique   new names: a new label below "new" in the names' zone, their last two labels
 *   zipf     90 of 100 from NAMES, the Nth as often as 1/N (Zipf's law); the others, its tail, unique
 *
 * Prints: datagrams sent, answers (NOERROR with a record), the answers' 50th and 99th percentile in µs, and
 * datagrams received of any kind. Each query is sent when it is due, whatever became of those before; where the
 * system falls behind, what is due is sent at once. Times are the kernel's: from before the query is sent until the
 * network stack has the reply, so that it does not matter when this program reads it. A reply counts for 300 ms after
 * the last query.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

enum {
    SOCKETS = 4,
    IDS = 1 << 16,
    BATCH = 32,
    QUERY_MAX = 300,
    REPLY_MAX = 1500,
    BUFFER = 4 << 20,
    NAMES_MAX = 1 << 20,
};
static const long long SECOND = 1000000000, TICK = 50000, LATE = 300000000;
static const double HITS_OF_ZIPF = 0.9;

struct name {
    unsigned len;
    unsigned char bytes[256];
};

enum load { HITS, UNIQUE, ZIPF };

static struct name *names, fresh;
static int names_len;
static double *sums; /* of 1/1 + … + 1/N, for each name */
static int fds[SOCKETS];
static unsigned next_id[SOCKETS];
static long long sent_at[SOCKETS][IDS];
static unsigned *times; /* of the answers, ns */
static long sent, answered, received;

static void fail(const char *what) {
    fprintf(stderr, "ask: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static void read_names(const char *path) {
    FILE *file = fopen(path, "r");
    char text[256];
    if (!file) fail(path);
    names = calloc(NAMES_MAX, sizeof *names);
    while (names_len < NAMES_MAX && fscanf(file, "%253s %*s", text) == 1) {
        struct name *name = &names[names_len++];
        for (char *label = strtok(text, "."); label; label = strtok(NULL, ".")) {
            size_t len = strlen(label);
            if (len > 63 || name->len + len + 2 > sizeof name->bytes) fail("a name is too long");
            name->bytes[name->len++] = len;
            memcpy(name->bytes + name->len, label, len);
            name->len += len;
        }
        name->len++;
    }
    fclose(file);
    if (!names_len) fail("no names");
    sums = calloc(names_len, sizeof *sums);
    for (int n = 0; n < names_len; n++) sums[n] = (n ? sums[n - 1] : 0) + 1.0 / (n + 1);
}

/* The zone of the first name, with "new" before it and room for a label of 16 before that. */
static void prepare_fresh(void) {
    unsigned starts[128], labels = 0, at = 0;
    for (; names[0].bytes[at]; at += names[0].bytes[at] + 1) starts[labels++] = at;
    unsigned zone = labels > 1 ? starts[labels - 2] : 0;
    fresh.bytes[0] = 16;
    memcpy(fresh.bytes + 17, "\3new", 4);
    memcpy(fresh.bytes + 21, names[0].bytes + zone, names[0].len - zone);
    fresh.len = 21 + names[0].len - zone;
}

static const struct name *make_fresh(void) {
    static unsigned long long number;
    char text[17];
    if (!number) number = now() << 8;
    snprintf(text, sizeof text, "%016llx", number++);
    memcpy(fresh.bytes + 1, text, 16);
    return &fresh;
}

static const struct name *choose(enum load load) {
    if (load == HITS) return &names[sent % names_len];
    if (load == UNIQUE || drand48() >= HITS_OF_ZIPF) return make_fresh();
    double sum = drand48() * sums[names_len - 1];
    int low = 0, high = names_len - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (sums[middle] < sum) low = middle + 1;
        else high = middle;
    }
    return &names[low];
}

static void open_sockets(const char *address, int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int yes = 1, len = BUFFER;
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1) fail(address);
    for (int n = 0; n < SOCKETS; n++) {
        fds[n] = socket(AF_INET, SOCK_DGRAM, 0);
        setsockopt(fds[n], SOL_SOCKET, SO_RCVBUFFORCE, &len, sizeof len);
        setsockopt(fds[n], SOL_SOCKET, SO_SNDBUFFORCE, &len, sizeof len);
        if (setsockopt(fds[n], SOL_SOCKET, SO_TIMESTAMPNS, &yes, sizeof yes)) fail("SO_TIMESTAMPNS");
        if (connect(fds[n], (struct sockaddr *)&to, sizeof to)) fail("connect");
    }
}

/* Sends up to `due` queries out of one socket; tells how many. */
static long ask(enum load load, long due) {
    static unsigned char queries[BATCH][QUERY_MAX];
    static int socket_next;
    struct mmsghdr messages[BATCH] = {0};
    struct iovec parts[BATCH];
    int s = socket_next++ % SOCKETS, count = due < BATCH ? due : BATCH;
    long before = sent;
    for (int n = 0; n < count; n++, sent++) {
        unsigned id = (next_id[s] + n) % IDS;
        const struct name *name = choose(load);
        unsigned char *query = queries[n];
        memcpy(query, (unsigned char[]){id >> 8, id, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 12);
        memcpy(query + 12, name->bytes, name->len);
        memcpy(query + 12 + name->len, "\0\1\0\1", 4);
        parts[n] = (struct iovec){query, 16 + name->len};
        messages[n].msg_hdr = (struct msghdr){.msg_iov = &parts[n], .msg_iovlen = 1};
        sent_at[s][id] = now();
    }
    int done = sendmmsg(fds[s], messages, count, MSG_DONTWAIT);
    if (done < 0) done = 0;
    for (int n = done; n < count; n++) sent_at[s][(next_id[s] + n) % IDS] = 0;
    next_id[s] += done;
    sent = before + done;
    return done;
}

static long long stamp(struct msghdr *message) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c))
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec time;
            memcpy(&time, CMSG_DATA(c), sizeof time);
            return time.tv_sec * SECOND + time.tv_nsec;
        }
    return now();
}

static void hear(int s) {
    static unsigned char replies[BATCH][REPLY_MAX], notes[BATCH][64];
    struct mmsghdr messages[BATCH] = {0};
    struct iovec parts[BATCH];
    int count;
    do {
        for (int n = 0; n < BATCH; n++) {
            parts[n] = (struct iovec){replies[n], REPLY_MAX};
            messages[n].msg_hdr = (struct msghdr){
                .msg_iov = &parts[n],
                .msg_iovlen = 1,
                .msg_control = notes[n],
                .msg_controllen = sizeof notes[n],
            };
        }
        count = recvmmsg(fds[s], messages, BATCH, MSG_DONTWAIT, NULL);
        for (int n = 0; n < count; n++) {
            unsigned char *reply = replies[n];
            long long *at = &sent_at[s][reply[0] << 8 | reply[1]];
            int is_reply = messages[n].msg_len > 12 && reply[2] >> 7;
            int is_answer = is_reply && !(reply[3] & 15) && (reply[6] | reply[7]);
            received++;
            if (is_answer && *at) times[answered++] = stamp(&messages[n].msg_hdr) - *at;
            *at = 0;
        }
    } while (count == BATCH);
}

static int by_size(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    static const char *const loads[] = {"hits", "unique", "zipf"};
    int load = -1;
    for (int n = 0; argc == 7 && n < 3; n++)
        if (!strcmp(argv[5], loads[n])) load = n;
    double rate = argc == 7 ? atof(argv[3]) : 0, seconds = argc == 7 ? atof(argv[4]) : 0;
    if (load < 0 || rate <= 0 || seconds <= 0) {
        fprintf(stderr, "usage: ask ADDRESS PORT RATE SECONDS hits|unique|zipf NAMES\n");
        return 2;
    }
    read_names(argv[6]);
    prepare_fresh();
    open_sockets(argv[1], atoi(argv[2]));
    times = calloc(rate * seconds + BATCH, sizeof *times);
    if (!times) fail("memory");
    srand48(now());
    prctl(PR_SET_TIMERSLACK, 1);
    long long start = now(), end = start + seconds * SECOND, time;
    long all = rate * seconds;
    while ((time = now()) < end + LATE) {
        long due = time < end ? rate * (time - start) / SECOND - sent : 0;
        if (due > all - sent) due = all - sent;
        while (due > 0) {
            long done = ask(load, due);
            if (!done) break;
            due -= done;
        }
        for (int s = 0; s < SOCKETS; s++) hear(s);
        struct timespec tick = {.tv_nsec = TICK};
        nanosleep(&tick, NULL);
    }
    qsort(times, answered, sizeof *times, by_size);
    double p50 = answered ? times[answered / 2] : 0, p99 = answered ? times[answered * 99 / 100] : 0;
    printf("%ld %ld %.0f %.0f %ld\n", sent, answered, p50 / 1000, p99 / 1000, received);
    return 0;
}
