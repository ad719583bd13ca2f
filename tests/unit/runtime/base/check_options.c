/* check_options.c: the table of options (row G4). */
/* memcheck: one process */
#include "wt.h"

#include "runtime/base/bytes.h"
#include "runtime/base/log.h"
#include "runtime/base/options.h"
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>

/* Bytes of the whole text with its terminator. */
static size_t put(const wm_options *options, char *text, size_t bytes)
{
    wm_text out = {text, bytes, 0};

    wm_options_put(options, &out);
    return out.used + 1;
}

WT_TEST(test_G4_defaults_are_the_tables)
{
    wm_options o;

    wt_ok(wm_options_resolve(NULL, NULL, &o));
    ck_assert_str_eq(o.device, "auto");
    ck_assert_uint_eq(o.host_devices, 1);
    ck_assert_uint_eq(o.segment, 4 << 20);
    ck_assert_str_eq(o.libraries, "");
}

WT_TEST(test_G4_struct_wins_over_conf_wins_over_default)
{
    warm_options given = {.size = sizeof given, .host_devices = 3};
    wm_options o;

    wt_ok(wm_options_resolve(&given, ",host_devices:2,,segment:8M,device:host,",
                             &o));
    ck_assert_uint_eq(o.host_devices, 3);
    ck_assert_uint_eq(o.segment, 8 << 20);
    ck_assert_str_eq(o.device, "host");
}

/* A number that may be off: by a word in the text, by WARM_OFF in the struct.
 */
WT_TEST(test_G4_B12_a_number_may_be_off)
{
    warm_options given = {.size = sizeof given};
    char text[2048];
    wm_options o;

    wt_ok(wm_options_resolve(&given, NULL, &o));
    ck_assert_uint_eq(o.limit_wait_ms, 100);
    wt_ok(wm_options_resolve(&given, "limit_wait_ms:off", &o));
    ck_assert_uint_eq(o.limit_wait_ms, WARM_OFF);
    (void)put(&o, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "limit_wait_ms:off\n"));
    given.limit_wait_ms = 7;
    wt_ok(wm_options_resolve(&given, "limit_wait_ms:off", &o));
    ck_assert_uint_eq(o.limit_wait_ms, 7);
    given.limit_wait_ms = WARM_OFF;
    wt_ok(wm_options_resolve(&given, "limit_wait_ms:60000", &o));
    ck_assert_uint_eq(o.limit_wait_ms, WARM_OFF);
    given.limit_wait_ms = 60001;
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(&given, NULL, &o));
    given = (warm_options){.size = sizeof given, .segment = WARM_OFF};
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(&given, NULL, &o));
}

/* A set is off, or words joined by +, in any order. */
WT_TEST(test_G4_G9_an_option_may_be_a_set_of_words)
{
    static const char *const bad[] = {
        "debug:on",        "debug:guard+",     "debug:+guard",   "debug:",
        "debug:fill+fill", "debug:guard|fill", "debug:off+fill", "debug:guar"};
    warm_options given = {.size = sizeof given, .debug = "leaks"};
    char text[1 << 14];
    wm_options o;

    wt_ok(wm_options_resolve(NULL, NULL, &o));
    ck_assert_str_eq(o.debug, "off");
    ck_assert(!wm_options_any(o.debug) && !wm_options_has(o.debug, "fill"));
    wt_ok(wm_options_resolve(NULL, "debug: leaks+fill ", &o));
    ck_assert(wm_options_any(o.debug) && wm_options_has(o.debug, "fill") &&
              wm_options_has(o.debug, "leaks") &&
              !wm_options_has(o.debug, "guard") &&
              !wm_options_has(o.debug, "fil"));
    wt_ok(wm_options_resolve(NULL, "debug:guard+fill+leaks", &o));
    wt_ok(wm_options_resolve(&given, "debug:guard", &o));
    ck_assert_str_eq(o.debug, "leaks");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, bad[i], &o));
        wt_says("option debug", "guard|fill|leaks", "joined by +");
    }
    (void)warm_options_help(text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "\ndebug: off (or words of "
                                       "guard|fill|leaks, joined by +)\n"));
}

/* A list sets numbers that no text for users names: of two the first. */
WT_TEST(test_G4_the_list_for_tests)
{
    warm_options given = {.size = sizeof given,
                          .test = "numa_nodes=3::arenas=4:arenas=1"};
    char text[1 << 14];
    wm_options o;

    wt_ok(wm_options_resolve(&given, "test:pin_threads=2", &o));
    ck_assert_uint_eq(o.arenas, 4);
    ck_assert_uint_eq(o.numa_nodes, 3);
    ck_assert_uint_eq(o.pin_threads, 0);
    (void)put(&o, text, sizeof text);
    wt_contains(text, "\ntest:numa_nodes=3::arenas=4:arenas=1\n");
    (void)warm_options_help(text, sizeof text);
    ck_assert_ptr_null(strstr(text, "arenas"));
    ck_assert_ptr_null(strstr(text, "test:"));
}

/* The value of a part ends at the next colon. */
WT_TEST(test_G4_a_list_has_parts)
{
    static const char list[] = "cudart=/a=b+c:cublaslt=:cublas=/d";
    char path[8] = "none";

    ck_assert(!wm_options_part(list, "cuda", path, sizeof path));
    ck_assert_str_eq(path, "none");
    ck_assert(wm_options_part(list, "cublaslt", path, sizeof path));
    ck_assert_str_eq(path, "");
    ck_assert(wm_options_part(list, "cublas", path, sizeof path));
    ck_assert_str_eq(path, "/d");
    ck_assert(wm_options_part(list, "cudart", path, sizeof path));
    ck_assert_str_eq(path, "/a=b+c");
    ck_assert(!wm_options_part("", "cudart", path, sizeof path));
}

/* What a trace's head says is enough to ask for the same again. */
WT_TEST(test_G4_options_in_force_as_text)
{
    wm_options o, again;
    char text[2048], small[16], *newline;
    size_t bytes;

    wt_ok(wm_options_resolve(NULL,
                             "host_devices:3,segment:8M,log_file:/a:b,"
                             "libraries:cudnn=/a+b,test:numa_nodes=2",
                             &o));
    bytes = put(&o, text, sizeof text);
    ck_assert_uint_eq(bytes, strlen(text) + 1);
    ck_assert_uint_eq(put(&o, NULL, 0), bytes);
    ck_assert_uint_eq(put(&o, small, sizeof small), bytes);
    ck_assert_uint_eq(strlen(small), sizeof small - 1);
    while ((newline = strchr(text, '\n')) != NULL) {
        *newline = ',';
    }
    wt_ok(wm_options_resolve(NULL, text, &again));
    ck_assert_mem_eq(&o, &again, sizeof o);
}

static const struct {
    const char *conf, *named;
} refused[] = {
    {"colour:red", "host_devices"},
    {"colour:red", "libraries"},
    {"device:metal", "auto|cuda|host"},
    {"host_devices:0", "1 to 64"},
    {"host_devices:65", "1 to 64"},
    {"host_devices:-1", "1 to 64"},
    {"host_devices:1x", "1 to 64"},
    {"segment:17592186044417M", "T"},
    {"segment:99999999999T", "T"},
    {"segment", "key:value"},
    {"device:", "auto|cuda|host"},
    {"device:auto|cuda", "auto|cuda|host"},
    {"segment:18014398509483008K", "T"},
    {"device:ho", "auto|cuda|host"},
    {"host_devices:1 2", "1 to 64"},
    {"host_devices:+1", "1 to 64"},
    {"host_devices:1x", "not a number"},
    {"host_devices:T", "not a number"},
    {"limit_wait_ms:0", "1 to 60000 ms or off"},
    {"limit_wait_ms:Off", "not a number"},
    {"slack:off", "not a number"},
    {"decay_ms:10K", "not a number"},
    {"history:1K", "not a number"},
    {"test:arenas=17", "0 to 16 arenas"},
    {"test:arenas=2:numa_nodes=x", "not a number"},
    {"test:arenas", "arenas|numa_nodes|pin_threads"},
    {"test:colour=1", "NAME=VALUE"},
    {"test:arenas|numa_nodes=1", "NAME=VALUE"},
    {"arenas:2", "the library chooses"},
    {"pin_threads:2", "no option pin_threads any more"},
    {"arenas|numa_nodes:2", "unknown option"},
    {"magazines:off", "keep:off"},
    {"cudart:/lib", "libraries:NAME=FILE"},
    {"libraries:/lib", "cudart|cublas"},
    {"libraries:cudart=/lib:cublast=/lib", "cudart|cublas"},
    {"magazine_blocks:2", "keep bounds"},
    {"batch_ms:2", "background:on"},
};

/* With a key that is quoted at its full length. */
WT_TEST(test_G4_the_message_about_an_unknown_key_has_room_for_all_names)
{
    static const char *const names[] = {
#define NAME_SIZE(name, unit, def, min, max, help) #name,
#define NAME_ENUM(name, def, choices, help)        #name,
#define NAME_SET(name, words, help)                #name,
#define NAME_TEXT(name, help)                      #name,
#define NAME_LIST(name, names, help)               #name,
        WARM_OPTION_MAP(NAME_SIZE, NAME_ENUM, NAME_SET, NAME_TEXT, NAME_LIST)};
    const char *message = warm_last_error_message();
    wm_options o;

    wt_fails(
        WARM_INVALID_OPTION,
        wm_options_resolve(NULL,
                           "a_key_that_is_longer_than_any_option_has_a_name"
                           "_as_people_write_them:1",
                           &o));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(strstr(message, names[i]) != NULL, "%s: %s", names[i],
                      message);
    }
    wt_contains(message, "; WARMPOOL_CONF=help prints what they do");
}

/* Words joined by +, in any order; the default is none. */
WT_TEST(test_G4_G8_a_set_has_the_words_that_are_given)
{
    warm_options given = {.size = sizeof given};
    wm_options o;

    wt_ok(wm_options_resolve(NULL, NULL, &o));
    ck_assert_str_eq(o.log_memory, "off");
    wt_ok(wm_options_resolve(NULL, "log_memory: release+alloc", &o));
    ck_assert(wm_options_has(o.log_memory, "alloc"));
    ck_assert(wm_options_has(o.log_memory, "release"));
    ck_assert(!wm_options_has(o.log_memory, "profile"));
    ck_assert(!wm_options_has(o.log_memory, "all"));
    ck_assert(!wm_options_has("xalloc+allocx", "alloc"));
    given.log_memory = "free";
    wt_ok(wm_options_resolve(&given, "log_memory:alloc", &o));
    ck_assert_str_eq(o.log_memory, "free");
    given.log_memory = "free+free|alloc";
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(&given, NULL, &o));
    wt_says("warm_options", "'free+free|alloc'", "each once, joined by +");
}

/* Text that is read back gives the same again. */
WT_TEST(test_F7_G4_ratios_of_watermarks)
{
    static const char *const wrong[] = {
        "device_high:2.1",  "device_high:2.000001",
        "device_high:0.9G", "device_high:.9",
        "device_high:1.",   "segment:1.5",
        "device_high:-0.5", "device_high:99999999999999999999.0"};
    char text[2048];
    wm_options o;

    wt_ok(wm_options_resolve(
        NULL, "device_high:0.9,device_low:0.0,total_high:2.0,pinned_high:1",
        &o));
    ck_assert(wm_option_is_ratio(o.device_high));
    ck_assert(wm_option_ratio(o.device_high) == 0.9);
    ck_assert(wm_option_ratio(o.total_high) == 2.0);
    ck_assert_uint_eq(o.device_low, WARM_OFF);
    ck_assert_uint_eq(o.pinned_high, 1);
    (void)put(&o, text, sizeof text);
    wt_contains(text, "\ndevice_high:0.900000\n", "\ntotal_high:2.000000\n");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, wrong[i], &o));
    }
    wt_fails(WARM_INVALID_OPTION,
             wm_options_resolve(NULL, "device_high:2.5", &o));
    wt_says("'2.5' is out of range; allowed is a ratio of 0.0 to 2.0");
}

WT_TEST(test_G8_what_the_environment_names)
{
    ck_assert(!wm_options_named(NULL, "log"));
    ck_assert(wm_options_named("segment:8M, log :info", "log"));
    ck_assert(!wm_options_named("log_file:log", "log"));
    ck_assert(!wm_options_named("log", "log"));
    ck_assert(wm_options_named(" help ,", "help"));
    ck_assert(!wm_options_named("help:1,trace:help", "help"));
}

/* However large: it is a number. */
static const char *const too_large[] = {
    "limit_wait_ms:60001",
    "limit_wait_ms:18446744073709551615",
    "limit_wait_ms:99999999999999999999999",
    "host_devices:65",
    "segment:18446744073709551615",
    "segment:18446744073709551616",
    "segment:18446744073709617152", /* 65536 in 64 bits */
    "segment:18014398509481984K",
    "segment:18014398509482048K", /* as well */
    "segment:99999999999999999999999999999999T",
    "pinned_high:18446744073709551615",
};

/* Each is the same as "device:host,host_devices:3,log_file:/a b:c". */
static const char *const spaced[] = {
    "device:host,host_devices:3,log_file:/a b:c",
    " device : host , host_devices : 3 , log_file : /a b:c ",
    "\tdevice:host,\n  host_devices:3,\r\n  log_file:/a b:c\n",
    ",device:host, ,host_devices:3,,log_file:/a b:c,",
    "device:host,host_devices:3,log_file:/a b:c, \t",
};

WT_LOOP_TEST(test_G4_blanks_and_empty_entries_count_for_nothing,
             sizeof spaced / sizeof spaced[0])
{
    wm_options o, plain;

    wt_ok(wm_options_resolve(NULL, spaced[0], &plain));
    wt_ok(wm_options_resolve(NULL, spaced[_i], &o));
    ck_assert_str_eq(o.device, "host");
    ck_assert_uint_eq(o.host_devices, 3);
    ck_assert_str_eq(o.log_file, "/a b:c");
    ck_assert_mem_eq(&o, &plain, sizeof o);
}

static const char *const repeated[] = {
    "segment:8M,segment:16M",
    "segment:8M,device:host, segment :8M",
    "segment:8M,,segment:nonsense",
};

WT_LOOP_TEST(test_G4_a_repeated_key_is_refused_and_named,
             sizeof repeated / sizeof repeated[0])
{
    wm_options o = {.host_devices = 77};

    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, repeated[_i], &o));
    wt_says("option segment is given twice");
    ck_assert_uint_eq(o.host_devices, 77);
}

/* It would look like two options wherever options are written line by line. */
WT_TEST(test_G4_a_text_with_the_end_of_a_line_is_refused)
{
    warm_options given = {.size = sizeof given,
                          .trace = "/tmp/a\nsegment:65536"};
    wm_options o;

    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(&given, NULL, &o));
    wt_says("option trace", "'/tmp/a\\nsegment:65536'",
            "has the end of a line in it");
    wt_fails(WARM_INVALID_OPTION,
             wm_options_resolve(NULL, "log_file:a\rb", &o));
}

/* What is echoed ends no line and drives no terminal; shown: instead. */
static const struct {
    const char *conf, *shown;
} echoed[] = {
    {"devi\nce:host", "'devi\\nce'"},
    {"device:ho\nst\x1b[31m", "'ho\\nst\\x1b[31m'"},
    {"a\rb", "'a\\x0db'"},
    {"segment:\x7f"
     "1",
     "'\\x7f1'"},
    {"device:a\tb", "'a\\tb'"},
    {"device:\xc2\x9b"
     "1",
     "\\x9b1'"},
    {"device:\xc3\x96l", "'\xc3\x96l'"}, /* no control: a letter */
    {"device:"
     "a\n3456789012345678901234567890123456789012345678\x01",
     "'a\\n3456789012345678901234567890123456789012345678...'"},
};

WT_LOOP_TEST(test_G4_G6_what_a_message_echoes_is_escaped_and_short,
             sizeof echoed / sizeof echoed[0])
{
    const char *message = warm_last_error_message();
    wm_options o;

    wt_fails(WARM_INVALID_OPTION,
             wm_options_resolve(NULL, echoed[_i].conf, &o));
    ck_assert_msg(strstr(message, echoed[_i].shown) != NULL, "%s", message);
    for (const char *c = message; *c != '\0'; c++) {
        ck_assert_msg((unsigned char)*c >= 0x20 && *c != 0x7f, "%s", message);
    }
}

/* Escapes need more room than what they stand for. */
WT_TEST(test_G6_a_text_that_has_no_room_escaped_is_cut)
{
    char text[32];

    for (size_t bytes = 9; bytes <= sizeof text; bytes++) {
        memset(text, '\n', sizeof text);
        text[bytes - 1] = '\0';
        wm_shown(text, bytes);
        ck_assert_uint_lt(strlen(text), bytes);
        ck_assert_ptr_nonnull(strstr(text, "..."));
        ck_assert_int_eq(strncmp(text, "\\n", 2), 0);
    }
    strcpy(text, "a\nb");
    wm_shown(text, sizeof text);
    ck_assert_str_eq(text, "a\\nb");
}

static char logged[512];

static void note_line(void *context, warm_log_level level, const char *line)
{
    (void)context;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

WT_TEST(test_G6_a_log_line_is_one_line)
{
    warm_log_set(note_line, NULL);
    wm_log(WARM_LOG_WARNING, "a name: %s", "x\ny\x1b");
    warm_log_set(NULL, NULL);
    ck_assert_str_eq(logged, "a name: x\\ny\\x1b");
}

WT_LOOP_TEST(test_G4_a_number_that_is_too_large_is_out_of_range,
             sizeof too_large / sizeof too_large[0])
{
    wm_options o = {.host_devices = 77};

    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, too_large[_i], &o));
    wt_says("is out of range");
    ck_assert_ptr_nonnull(
        strstr(warm_last_error_message(), strchr(too_large[_i], ':') + 1));
    ck_assert_uint_eq(o.host_devices, 77);
}

WT_LOOP_TEST(test_G4_bad_conf_is_refused_and_named,
             sizeof refused / sizeof refused[0])
{
    wm_options o = {.host_devices = 77};

    wt_fails(WARM_INVALID_OPTION,
             wm_options_resolve(NULL, refused[_i].conf, &o));
    ck_assert_ptr_nonnull(strstr(warm_last_error_message(), refused[_i].named));
    ck_assert_uint_eq(o.host_devices, 77);
}

/* What is given may be long; what is allowed is said all the same. */
static const struct {
    const char *key, *named;
} too_long[] = {
    {"", "allowed are device, host_devices"},
    {"device:", "allowed is auto|cuda|host"},
    {"host_devices:", "allowed is 1 to 64"},
    {"segment:1", "allowed is 64K to 16G bytes (suffix K, M, G or T"},
    {"log_file:", "allowed are 255 characters"},
    {"libraries:cudart=", "allowed are 1023 characters"},
};

WT_LOOP_TEST(test_G4_a_long_value_does_not_hide_what_is_allowed,
             sizeof too_long / sizeof too_long[0])
{
    wm_options o;
    char conf[2000];
    const char *message = warm_last_error_message();
    size_t used = strlen(too_long[_i].key);

    memset(conf, '7', sizeof conf);
    memcpy(conf, too_long[_i].key, used);
    conf[sizeof conf - 1] = '\0';
    /* An unknown key, or a known one with a value too long. */
    conf[sizeof conf - 2] = used > 0 ? '7' : ':';
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, conf, &o));
    ck_assert_msg(strstr(message, too_long[_i].named) != NULL, "%s", message);
}

WT_TEST(test_G4_the_message_says_where_the_option_stands)
{
    warm_options given = {.size = sizeof given, .device = "metal"};
    wm_options o;

    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, "device:metal", &o));
    wt_says("WARMPOOL_CONF");
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(NULL, "metal:1", &o));
    wt_says("WARMPOOL_CONF");
    wt_fails(WARM_INVALID_OPTION,
             wm_options_resolve(&given, "device:host", &o));
    wt_says("warm_options");
}

WT_TEST(test_G4_text_that_does_not_fit_is_refused)
{
    char path[WM_OPTION_TEXT_MAX + 1];
    warm_options given = {.size = sizeof given, .trace = path};
    wm_options o;

    memset(path, 'p', sizeof path);
    path[WM_OPTION_TEXT_MAX] = '\0';
    wt_fails(WARM_INVALID_OPTION, wm_options_resolve(&given, NULL, &o));
    wt_says("trace");
    path[WM_OPTION_TEXT_MAX - 1] = '\0';
    wt_ok(wm_options_resolve(&given, NULL, &o));
    ck_assert_str_eq(o.trace, path);
}

WT_TEST(test_F10_sizes_are_for_people)
{
    ck_assert_str_eq(wm_bytes(1023).text, "1023 B");
    ck_assert_str_eq(wm_bytes(1536).text, "1.5 KiB");
    ck_assert_str_eq(wm_bytes((uint64_t)5 << 40).text, "5.0 TiB");
    ck_assert_str_eq(wm_bytes((uint64_t)5000 << 40).text, "5000.0 TiB");
}

WT_TEST(test_G4_wrong_struct_size_is_refused)
{
    warm_options given = {.size = 8};
    wm_options o;

    wt_invalid(wm_options_resolve(&given, NULL, &o));
}

WT_TEST(test_G4_help_lists_every_option)
{
    char text[8192];
    size_t needed = warm_options_help(text, sizeof text);

    ck_assert_uint_eq(needed, strlen(text) + 1);
    ck_assert_ptr_nonnull(strstr(text, "cusolver"));
    ck_assert_uint_eq(warm_options_help(NULL, 0), needed);
}

/* Name, default, unit and range in one line; help below it, of words. */
static const char *const told[] = {
    "\nsegment: 4M bytes (64K to 16G)\n    ",
    "\nhost_devices: 1 devices (1 to 64)\n",
    "device: auto (auto|cuda|host)\n",
    "\ndecay_ms: 0 ms (0 to 1099511627776)\n",
    "\nlimit_wait_ms: 100 ms or off (1 to 60000)\n",
    "\ntrace: none (text, at most 255 characters)\n",
    "\nkeep: 15 permille or off (1 to 1000)\n",
};

WT_LOOP_TEST(test_G4_G8_help_has_unit_default_and_range,
             sizeof told / sizeof told[0])
{
    char text[8192];

    (void)warm_options_help(text, sizeof text);
    ck_assert_msg(strstr(text, told[_i]) != NULL, "%s", text);
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");

        ck_assert_msg(length > 0 && length <= 100, "%.*s", (int)length, line);
        ck_assert_msg(line[length - 1] != ' ', "%.*s", (int)length, line);
        line += length + (line[length] == '\n');
    }
}

/* The first and the last of each kind of sequence; and what is none. */
WT_TEST(test_G7_text_that_is_utf8_stays)
{
    static const char *const good =
        "\302\240 \337\277 \340\240\200 \340\277\277 \341\200\200 \354\277\277 "
        "\355\237\277 \356\200\200 \357\277\277 \360\220\200\200 "
        "\361\200\200\200 "
        "\363\277\277\277 \364\217\277\277";
    static const char *const bad[] = {
        "\301\277",         "\337\300",         "\340\237\277",
        "\340\240",         "\341\200\300",     "\354\177\277",
        "\355\240\200",     "\356\200",         "\361\200\200",
        "\360\217\277\277", "\364\220\200\200", "\365\200\200\200"};
    char out[200];
    wm_text text = {out, sizeof out, 0};

    wm_text_put_string(&text, good);
    ck_assert_ptr_nonnull(strstr(out, good));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        text.used = 0;
        wm_text_put_string(&text, bad[i]);
        ck_assert_ptr_null(strstr(out, bad[i]));
    }
}

WT_TEST(test_G4_control_characters_are_escaped_wherever_they_stand)
{
    char text[64] = "\302\200a\302\237\302\240\x1b";

    wm_shown(text, sizeof text);
    ck_assert_str_eq(text, "\302\\x80a\302\\x9f\302\240\\x1b");
}
