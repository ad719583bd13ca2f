/* listener.c: see listener.h. */
#include "examples/inference_server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool refused(int port, message *why)
{
    int code = errno;
    const char *advice = "";

    if (code == EADDRINUSE) {
        advice = "; stop the program that listens there, or choose another "
                 "port: --port 0 takes a free one";
    } else if (code == EACCES) {
        advice = "; ports below 1024 need privileges: choose a higher one with "
                 "--port";
    }
    return failed(why, "could not listen on 127.0.0.1:%d: %s%s", port,
                  strerrordesc_np(code), advice);
}

int listener_open(int *port, message *why)
{
    /* This machine only: put a real server in front to face others. */
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)*port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd >= 0) {
        /* At once after a server that has ended. */
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        refused(*port, why);
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

int listener_accept(int listening)
{
    int on = 1;
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return fd;
}

void listener_stop(int listening)
{
    /* Drops packets that ask for a connection: flag SYN of the TCP header. */
    enum { FLAGS = 13, SYN = 2 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};

    /* Where this is not supported a client may be cut off, as elsewhere. */
    setsockopt(listening, SOL_SOCKET, SO_ATTACH_FILTER, &program,
               sizeof program);
}
