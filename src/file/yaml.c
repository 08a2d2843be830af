/* libfyaml's events, turned into a tree of our own; every refusal happens here. */
#include "file/yaml.h"

#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

#include "file/text.h"

enum { MOST_NODES = 200000, MOST_KEYS = 4096 };

/* What is being built. */
typedef struct builder {
    const char *what;
    bool with_line;
    plumb_yaml *root;
    plumb_yaml *open[PLUMB_YAML_DEEPEST]; /* containers around the next node */
    int depth;
    char *key; /* of the next node, once read */
    int key_line;
    size_t nodes;
    int documents;
} builder;

static plumb_status refuse(const builder *b, int line, const char *sentence,
                           plumb_error *why)
{
    if (b->with_line)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s:%d: %s", b->what, line, sentence);
    return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %s", b->what, sentence);
}

static plumb_status no_memory(const builder *b, plumb_error *why)
{
    return plumb_fail(why, PLUMB_NO_MEMORY, "%s: out of memory", b->what);
}

static int line_of(struct fy_event *event)
{
    const struct fy_mark *mark = fy_event_start_mark(event);

    return mark != NULL ? mark->line + 1 : 1;
}

/* A fresh copy of a scalar's text.  Bytes 0 cannot be represented, so they are refused. */
static plumb_status scalar_text(const builder *b, struct fy_event *event, char **text,
                                plumb_error *why)
{
    size_t length = 0;
    const char *got = fy_token_get_text(event->scalar.value, &length);

    if (got == NULL && event->scalar.value != NULL && length > 0)
        return no_memory(b, why);
    if (length > 0 && memchr(got, 0, length) != NULL)
        return refuse(b, line_of(event), "a NUL character in a value", why);
    *text = malloc(length + 1);
    if (*text == NULL)
        return no_memory(b, why);
    if (length > 0)
        memcpy(*text, got, length);
    (*text)[length] = 0;
    return PLUMB_OK;
}

static plumb_status read_key(builder *b, struct fy_event *event, plumb_error *why)
{
    const plumb_yaml *const mapping = b->open[b->depth - 1];
    char shown[80], sentence[160];

    if (event->type != FYET_SCALAR)
        return refuse(b, line_of(event), "a key must be a word", why);
    const plumb_status status = scalar_text(b, event, &b->key, why);
    if (status != PLUMB_OK)
        return status;
    b->key_line = line_of(event);
    if (mapping->count >= MOST_KEYS)
        return refuse(b, b->key_line, "over 4096 keys in one place", why);
    for (const plumb_yaml *child = mapping->children; child != NULL; child = child->next)
        if (strcmp(child->key, b->key) == 0) {
            plumb_print(sentence, sizeof sentence, "key '%s' is given twice (see line %d)",
                        plumb_text_clean(b->key, strlen(b->key), shown, sizeof shown),
                        child->key_line);
            return refuse(b, b->key_line, sentence, why);
        }
    return PLUMB_OK;
}

/* Hangs a new node into the innermost open container. */
static plumb_status add_node(builder *b, struct fy_event *event, plumb_yaml_kind kind,
                             plumb_yaml **made, plumb_error *why)
{
    plumb_yaml *const parent = b->depth > 0 ? b->open[b->depth - 1] : NULL;
    plumb_yaml *node;

    if (++b->nodes > MOST_NODES)
        return refuse(b, line_of(event), "over 200000 values", why);
    node = calloc(1, sizeof *node);
    if (node == NULL)
        return no_memory(b, why);
    *node = (plumb_yaml){
        .kind = kind, .line = line_of(event), .key = b->key, .key_line = b->key_line};
    b->key = NULL;
    if (parent == NULL)
        b->root = node;
    else if (parent->last == NULL)
        parent->children = parent->last = node;
    else
        parent->last = parent->last->next = node;
    if (parent != NULL)
        parent->count++;
    *made = node;
    return PLUMB_OK;
}

static plumb_status add_scalar(builder *b, struct fy_event *event, plumb_error *why)
{
    plumb_yaml *node;
    const plumb_status status = add_node(b, event, PLUMB_YAML_SCALAR, &node, why);

    if (status != PLUMB_OK)
        return status;
    node->plain = event->scalar.value == NULL ||
                  fy_token_scalar_style(event->scalar.value) == FYSS_PLAIN;
    return scalar_text(b, event, &node->text, why);
}

static plumb_status add_container(builder *b, struct fy_event *event, plumb_error *why)
{
    const bool mapping = event->type == FYET_MAPPING_START;
    plumb_yaml *node;
    plumb_status status;

    if (b->depth >= PLUMB_YAML_DEEPEST)
        return refuse(b, line_of(event), "nested deeper than 16", why);
    status =
        add_node(b, event, mapping ? PLUMB_YAML_MAPPING : PLUMB_YAML_SEQUENCE, &node, why);
    if (status == PLUMB_OK)
        b->open[b->depth++] = node;
    return status;
}

static plumb_status check_decorations(const builder *b, struct fy_event *event,
                                      plumb_error *why)
{
    if (event->type == FYET_ALIAS)
        return refuse(b, line_of(event), "aliases (*name) are not allowed", why);
    if (fy_event_get_anchor_token(event) != NULL)
        return refuse(b, line_of(event), "anchors (&name) are not allowed", why);
    if (fy_event_get_tag_token(event) != NULL)
        return refuse(b, line_of(event), "tags (!name) are not allowed", why);
    return PLUMB_OK;
}

static plumb_status take_node(builder *b, struct fy_event *event, plumb_error *why)
{
    const plumb_status status = check_decorations(b, event, why);

    if (status != PLUMB_OK)
        return status;
    if (b->depth > 0 && b->open[b->depth - 1]->kind == PLUMB_YAML_MAPPING && b->key == NULL)
        return read_key(b, event, why);
    return event->type == FYET_SCALAR ? add_scalar(b, event, why)
                                      : add_container(b, event, why);
}

static plumb_status take(builder *b, struct fy_event *event, plumb_error *why)
{
    switch (event->type) {
    case FYET_SCALAR:
    case FYET_ALIAS:
    case FYET_MAPPING_START:
    case FYET_SEQUENCE_START:
        return take_node(b, event, why);
    case FYET_MAPPING_END:
    case FYET_SEQUENCE_END:
        b->depth--;
        return PLUMB_OK;
    case FYET_DOCUMENT_START:
        if (++b->documents > 1)
            return refuse(b, line_of(event), "a second document (---) in the file", why);
        return PLUMB_OK;
    default:
        return PLUMB_OK;
    }
}

/* Errors are collected; what libfyaml would print as well must not reach standard error. */
static void print_nothing(struct fy_diag *diag, void *user, const char *text, size_t length)
{
    (void)diag;
    (void)user;
    (void)text;
    (void)length;
}

static struct fy_diag *create_diag(void)
{
    struct fy_diag_cfg how;

    fy_diag_cfg_default(&how);
    how.fp = NULL;
    how.output_fn = print_nothing;
    how.colorize = false;
    struct fy_diag *diag = fy_diag_create(&how);
    if (diag != NULL)
        fy_diag_set_collect_errors(diag, true);
    return diag;
}

/* What libfyaml says is wrong, with its line. */
static plumb_status explain(const builder *b, struct fy_diag *diag, plumb_error *why)
{
    void *place = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(diag, &place);
    char shown[200];

    if (error == NULL || error->msg == NULL)
        return refuse(b, 1, "not YAML", why);
    plumb_text_clean(error->msg, strcspn(error->msg, "\n"), shown, sizeof shown);
    return refuse(b, error->line > 0 ? error->line : 1, shown, why);
}

static plumb_status run(builder *b, struct fy_parser *parser, struct fy_diag *diag,
                        plumb_error *why)
{
    plumb_status status = PLUMB_OK;
    struct fy_event *event;
    bool ended = false;

    while (status == PLUMB_OK && (event = fy_parser_parse(parser)) != NULL) {
        ended = event->type == FYET_STREAM_END;
        status = take(b, event, why);
        fy_parser_event_free(parser, event);
    }
    if (status == PLUMB_OK && !ended)
        status = explain(b, diag, why);
    return status;
}

/* True when every line is blank or a comment. */
static bool is_empty(const char *text, size_t size)
{
    bool comment = false;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            comment = false;
        else if (text[i] == '#')
            comment = true;
        else if (!comment && text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

/* What YAML does not allow anywhere: control characters, a NUL above all, and bytes that are
 * not UTF-8 (libfyaml would take some of them for UTF-16).
 */
static plumb_status check_bytes(const builder *b, const char *text, size_t size,
                                plumb_error *why)
{
    const size_t good = plumb_text_utf8(text, size);
    int line = 1;

    if (size > PLUMB_YAML_LIMIT)
        return plumb_fail(why, PLUMB_BAD_INPUT, "%s: %zu bytes; allowed: at most %d",
                          b->what, size, PLUMB_YAML_LIMIT);
    for (size_t i = 0; i < size; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (i == good)
            return refuse(b, line, "bytes that are not UTF-8", why);
        if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            return refuse(b, line, "a control character", why);
        line += c == '\n';
    }
    return PLUMB_OK;
}

plumb_status plumb_yaml_parse(const char *text, size_t size, const char *what,
                              bool with_line, plumb_yaml **tree, plumb_error *why)
{
    builder b = {.what = what, .with_line = with_line};
    struct fy_diag *diag = NULL;
    struct fy_parser *parser = NULL;
    plumb_status status = check_bytes(&b, text, size, why);

    *tree = NULL;
    if (status != PLUMB_OK || size == 0)
        return status;
    diag = create_diag();
    if (diag == NULL)
        return no_memory(&b, why);
    const struct fy_parse_cfg how = {
        .search_path = "",
        .flags = FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE |
                 FYPCF_SLOPPY_FLOW_INDENTATION | FYPCF_DISABLE_MMAP_OPT,
        .diag = diag,
    };
    parser = fy_parser_create(&how);
    if (parser == NULL || fy_parser_set_string(parser, text, size) != 0)
        status = no_memory(&b, why);
    else
        status = run(&b, parser, diag, why);
    if (status == PLUMB_OK && b.documents == 0 && !is_empty(text, size))
        status = refuse(&b, 1, "not YAML", why);
    if (parser != NULL)
        fy_parser_destroy(parser);
    fy_diag_destroy(diag);
    free(b.key);
    if (status == PLUMB_OK)
        *tree = b.root;
    else
        plumb_yaml_free(b.root);
    return status;
}

/* Depth is bounded by PLUMB_YAML_DEEPEST. */
void plumb_yaml_free(plumb_yaml *tree)
{
    while (tree != NULL) {
        plumb_yaml *const next = tree->next;
        plumb_yaml_free(tree->children);
        free(tree->key);
        free(tree->text);
        free(tree);
        tree = next;
    }
}

bool plumb_yaml_is_null(const plumb_yaml *node)
{
    return node->kind == PLUMB_YAML_SCALAR && node->plain &&
           (*node->text == 0 || strcmp(node->text, "~") == 0 ||
            strcmp(node->text, "null") == 0);
}

static json_t *scalar_json(const plumb_yaml *node)
{
    int64_t whole;
    double real;

    if (plumb_yaml_is_null(node))
        return json_null();
    if (node->plain && strcmp(node->text, "true") == 0)
        return json_true();
    if (node->plain && strcmp(node->text, "false") == 0)
        return json_false();
    if (node->plain && plumb_text_to_int(node->text, &whole))
        return json_integer((json_int_t)whole);
    if (node->plain && plumb_text_to_real(node->text, &real))
        return json_real(real);
    return json_string(node->text);
}

json_t *plumb_yaml_to_json(const plumb_yaml *tree)
{
    json_t *json = tree->kind == PLUMB_YAML_MAPPING ? json_object() : json_array();

    if (tree->kind == PLUMB_YAML_SCALAR) {
        json_decref(json);
        return scalar_json(tree);
    }
    for (const plumb_yaml *child = tree->children; child != NULL; child = child->next) {
        json_t *value = plumb_yaml_to_json(child);
        const int failed = tree->kind == PLUMB_YAML_MAPPING
                               ? json_object_set_new(json, child->key, value)
                               : json_array_append_new(json, value);
        if (failed) { /* out of memory, or not UTF-8 */
            json_decref(json);
            return NULL;
        }
    }
    return json;
}
