/*
 * A chat-completion server that decodes nothing and knows exactly when it sent each token.
 *
 * All running streams get one token at every tick, as a batched engine does it. It is single threaded, allocates
 * nothing per token and writes the send time of every token to its log, so that a client's own figures can be held
 * against the truth. POSIX only (poll), Linux and macOS.
 *
 *   cc -O2 -o fakesse fakesse.c
 *   fakesse FIRST_TOKEN_US TICK_US LOG        prints "port N" once it listens on a free loopback port
 *
 * A request says how many tokens it wants ("max_tokens"), and its own name ("user": "r17"). One line of the log a
 * request, all times in nanoseconds of the monotonic clock:
 *
 *   name  request_read  token_1  token_2  ...  token_n
 */
#define _POSIX_C_SOURCE 200809L
#define _DARWIN_C_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STREAMS = 1024, MAX_TOKENS = 4096, INPUT_BYTES = 1 << 16, OUTPUT_BYTES = 1 << 14 };

typedef struct {
  int running, wanted, made;
  size_t input, output;
  int64_t request_read_ns, next_ns, token_ns[MAX_TOKENS];
  char name[32];
  char in[INPUT_BYTES + 1], out[OUTPUT_BYTES];
} Stream;

static Stream *streams[MAX_STREAMS];
static struct pollfd polled[MAX_STREAMS + 1]; /* entry 0 listens */
static int count;
static int64_t first_token_ns, tick_ns;
static FILE *log_file;
static volatile sig_atomic_t stopping;

static void on_signal(int number) {
  (void)number;
  stopping = 1;
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void put(Stream *s, const char *text, size_t length) {
  if (s->output + length > OUTPUT_BYTES) return; /* the reader has stopped reading: its tokens are lost, and show */
  memcpy(s->out + s->output, text, length);
  s->output += length;
}

static int flush_output(Stream *s, int fd) {
  size_t done = 0;
  while (done < s->output) {
    ssize_t n = send(fd, s->out + done, s->output - done, 0);
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) return -1;
    done += (size_t)n;
  }
  memmove(s->out, s->out + done, s->output - done);
  s->output -= done;
  return 0;
}

static void put_chunk(Stream *s, const char *event) {
  char size[16];
  size_t length = strlen(event);
  put(s, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", length));
  put(s, event, length);
  put(s, "\r\n", 2);
}

/* The value of a JSON field, good enough for the bodies that the benchmark sends. */
static const char *field(const char *body, const char *key) {
  const char *p = strstr(body, key);
  if (!p) return NULL;
  p += strlen(key);
  while (*p == ' ' || *p == ':' || *p == '"') p++;
  return p;
}

static void answer_json(Stream *s, const char *body) {
  char head[160];
  int n = snprintf(head, sizeof head,
                   "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", strlen(body));
  put(s, head, (size_t)n);
  put(s, body, strlen(body));
}

static void begin(Stream *s, const char *body) {
  static const char head[] =
      "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
  const char *tokens = field(body, "\"max_tokens\"");
  const char *name = field(body, "\"user\":");
  size_t length = name ? strcspn(name, "\"") : 0;
  if (length >= sizeof s->name) length = sizeof s->name - 1;
  memcpy(s->name, name ? name : "", length);
  s->name[length] = 0;
  s->wanted = tokens ? atoi(tokens) : 16;
  if (s->wanted < 1) s->wanted = 1;
  if (s->wanted > MAX_TOKENS) s->wanted = MAX_TOKENS;
  s->made = 0;
  s->running = 1;
  s->request_read_ns = now_ns();
  s->next_ns = (s->request_read_ns + first_token_ns + tick_ns - 1) / tick_ns * tick_ns; /* the next common tick */
  put(s, head, sizeof head - 1);
}

/* Takes one whole request out of the input, if there is one. */
static void read_request(Stream *s) {
  s->in[s->input] = 0;
  char *blank = strstr(s->in, "\r\n\r\n");
  if (!blank || s->running) return;
  size_t head = (size_t)(blank - s->in) + 4, length = 0;
  for (char *line = s->in; line < blank; line = strstr(line, "\r\n") + 2)
    if (!strncasecmp(line, "content-length:", 15)) length = (size_t)atol(line + 15);
  if (s->input < head + length) return;
  char after = s->in[head + length];
  s->in[head + length] = 0;
  if (!strncmp(s->in, "POST ", 5))
    begin(s, s->in + head);
  else
    answer_json(s, "{\"object\":\"list\",\"data\":[{\"id\":\"fake\",\"object\":\"model\"}]}");
  s->in[head + length] = after;
  s->input -= head + length;
  memmove(s->in, s->in + head + length, s->input);
}

static void finish(Stream *s) {
  char event[512];
  put_chunk(s,
            "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"fake\","
            "\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"length\"}]}\n\n");
  snprintf(event, sizeof event,
           "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"fake\","
           "\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n",
           s->made, s->made + 8);
  put_chunk(s, event);
  put_chunk(s, "data: [DONE]\n\n");
  put(s, "0\r\n\r\n", 5);
  fprintf(log_file, "%s %lld", s->name, (long long)s->request_read_ns);
  for (int i = 0; i < s->made; i++) fprintf(log_file, " %lld", (long long)s->token_ns[i]);
  fputc('\n', log_file);
  fflush(log_file);
  s->running = 0;
}

static int send_token(Stream *s, int fd) {
  s->token_ns[s->made++] = now_ns();
  s->next_ns += tick_ns;
  put_chunk(s,
            "data: {\"id\":\"chatcmpl-0\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
            "\"model\":\"fake\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tok\"},\"logprobs\":null,"
            "\"finish_reason\":null}]}\n\n");
  if (flush_output(s, fd)) return -1;
  if (s->made == s->wanted) { /* in a later write than the last token, as engines do */
    finish(s);
    return flush_output(s, fd);
  }
  return 0;
}

static void close_stream(int i) {
  close(polled[i + 1].fd);
  free(streams[i]);
  streams[i] = streams[--count];
  polled[i + 1] = polled[count + 1];
}

static void accept_all(void) {
  int fd, one = 1;
  while (count < MAX_STREAMS && (fd = accept(polled[0].fd, NULL, NULL)) >= 0) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    streams[count] = calloc(1, sizeof(Stream));
    polled[++count] = (struct pollfd){.fd = fd, .events = POLLIN};
  }
}

static int serve(int i) {
  Stream *s = streams[i];
  int fd = polled[i + 1].fd;
  short seen = polled[i + 1].revents;
  if (seen & (POLLERR | POLLNVAL)) return -1;
  if (seen & (POLLIN | POLLHUP)) {
    ssize_t n = recv(fd, s->in + s->input, INPUT_BYTES - s->input, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return -1;
    if (n > 0) s->input += (size_t)n;
  }
  read_request(s);
  return flush_output(s, fd);
}

static int listen_on_free_port(void) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1024)) return -1;
  getsockname(fd, (struct sockaddr *)&address, &size);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  polled[0] = (struct pollfd){.fd = fd, .events = POLLIN};
  printf("port %d\n", ntohs(address.sin_port));
  fflush(stdout);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) return fprintf(stderr, "usage: fakesse FIRST_TOKEN_US TICK_US LOG\n"), 2;
  first_token_ns = atoll(argv[1]) * 1000;
  tick_ns = atoll(argv[2]) * 1000;
  log_file = fopen(argv[3], "w");
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, on_signal);
  if (!log_file || tick_ns <= 0 || listen_on_free_port()) return perror("fakesse"), 1;
  while (!stopping) {
    int64_t next = INT64_MAX, now = now_ns();
    for (int i = 0; i < count; i++)
      if (streams[i]->running && streams[i]->next_ns < next) next = streams[i]->next_ns;
    /* poll counts in milliseconds: whole ones are slept, the rest is spun away */
    int wait_ms = next == INT64_MAX ? 500 : next <= now ? 0 : (int)((next - now) / 1000000);
    if (getppid() == 1) break; /* the benchmark died */
    if (poll(polled, (nfds_t)count + 1, wait_ms) > 0) {
      int before = count;
      for (int i = before - 1; i >= 0; i--)
        if (polled[i + 1].revents && serve(i)) close_stream(i);
      if (polled[0].revents) accept_all();
    }
    now = now_ns();
    for (int i = count - 1; i >= 0; i--)
      if (streams[i]->running && streams[i]->next_ns <= now && send_token(streams[i], polled[i + 1].fd)) close_stream(i);
  }
  fclose(log_file);
  return 0;
}
