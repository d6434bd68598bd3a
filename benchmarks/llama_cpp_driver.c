/* Generates tokens by llama.cpp, for benchmarks/compare.py; install_llama_cpp.sh
   compiles it.

   usage: driver quantize FROM TO q8_0|q4_0 THREADS
          driver generate FILE THREADS SEQUENCES CONTEXT

   `generate` reads lines from standard input: the number of prompts, the length of
   each, the number of tokens to generate of each, and all prompts' tokens. It answers
   each with a line: the processor seconds that the process used for it, and the tokens
   of one prompt after another. Generation is greedy; nothing is kept between lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ggml-backend.h"
#include "llama.h"

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level >= GGML_LOG_LEVEL_WARN) fputs(text, stderr);
}

static double processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static int quantize(char **args) {
    struct llama_model_quantize_params params = llama_model_quantize_default_params();
    params.nthread = atoi(args[3]);
    params.ftype = strcmp(args[2], "q8_0") ? LLAMA_FTYPE_MOSTLY_Q4_0
                                           : LLAMA_FTYPE_MOSTLY_Q8_0;
    return llama_model_quantize(args[0], args[1], &params) ? 1 : 0;
}

static int number(void) {
    int found;
    if (scanf("%d", &found) != 1) fail("a line ends too early");
    return found;
}

static llama_token best(struct llama_context *context, int at, int vocabulary) {
    const float *logits = llama_get_logits_ith(context, at);
    if (!logits) fail("a token has no logits");
    llama_token found = 0;
    for (int each = 1; each < vocabulary; each++)
        if (logits[each] > logits[found]) found = each;
    return found;
}

static void add(struct llama_batch *batch, llama_token token, int place, int sequence,
                int is_last) {
    int at = batch->n_tokens++;
    batch->token[at] = token;
    batch->pos[at] = place;
    batch->n_seq_id[at] = 1;
    batch->seq_id[at][0] = sequence;
    batch->logits[at] = is_last;
}

/* Computes a batch, and writes the next token of each of its sequences that ends. */
static void compute(struct llama_context *context, struct llama_batch *batch,
                    llama_token *next, int vocabulary) {
    if (batch->n_tokens == 0) return;
    if (llama_decode(context, *batch)) fail("llama_decode failed");
    for (int at = 0; at < batch->n_tokens; at++)
        if (batch->logits[at])
            next[batch->seq_id[at][0]] = best(context, at, vocabulary);
    batch->n_tokens = 0;
}

static void generate(struct llama_context *context, struct llama_batch *batch,
                     int vocabulary, int most, int count) {
    int length = number(), output = number();
    llama_token *prompts = malloc(sizeof(llama_token) * count * length);
    llama_token *found = malloc(sizeof(llama_token) * count * (output + 1));
    llama_token *next = malloc(sizeof(llama_token) * count);
    if (!prompts || !found || !next) fail("no memory");
    for (int at = 0; at < count * length; at++) prompts[at] = number();
    double start = processor_seconds();
    llama_memory_clear(llama_get_memory(context), false);
    for (int each = 0; each < count; each++)
        for (int at = 0; at < length; at++) {
            add(batch, prompts[each * length + at], at, each, at == length - 1);
            if (batch->n_tokens == most) compute(context, batch, next, vocabulary);
        }
    compute(context, batch, next, vocabulary);
    for (int step = 0; step < output; step++) {
        for (int each = 0; each < count; each++) {
            found[each * output + step] = next[each];
            if (step + 1 < output) add(batch, next[each], length + step, each, 1);
        }
        compute(context, batch, next, vocabulary);
    }
    printf("%.6f", processor_seconds() - start);
    for (int at = 0; at < count * output; at++) printf(" %d", found[at]);
    printf("\n");
    fflush(stdout);
    free(prompts);
    free(found);
    free(next);
}

static int serve(char **args) {
    int threads = atoi(args[1]), sequences = atoi(args[2]), length = atoi(args[3]);
    struct llama_model *model =
        llama_model_load_from_file(args[0], llama_model_default_params());
    if (!model) fail("the model cannot be loaded");
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = sequences * length;
    params.n_seq_max = sequences;
    params.n_threads = params.n_threads_batch = threads;
    struct llama_context *context = llama_init_from_model(model, params);
    if (!context) fail("there is no context");
    int most = llama_n_batch(context), count;
    int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_batch batch = llama_batch_init(most, 0, 1);
    while (scanf("%d", &count) == 1)
        generate(context, &batch, vocabulary, most, count);
    llama_batch_free(batch);
    llama_free(context);
    llama_model_free(model);
    return 0;
}

int main(int count, char **args) {
    if (count != 6) fail("usage: driver quantize|generate …");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", args[0]);
    char *end = strrchr(folder, '/');
    if (!end) fail("the program's name has no folder");
    *end = 0;
    llama_log_set(quiet, NULL);
    ggml_backend_load_all_from_path(folder);
    llama_backend_init();
    return strcmp(args[1], "quantize") ? serve(args + 2) : quantize(args + 2);
}
