/* fit_tree.c: a treap; a node's weight is at least its children's. */
#include "alloc/fit_tree.h"

#include "runtime/base/status.h"

static bool before(const wm_block *a, const wm_block *b)
{
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->base < b->base;
}

static uint32_t next_weight(wm_fit_tree *tree)
{
    uint32_t x = tree->seed != 0 ? tree->seed : 2463534242u;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    tree->seed = x;
    return x;
}

void wm_fit_tree_insert(wm_fit_tree *tree, wm_block *block)
{
    wm_block **link = &tree->root;
    wm_block *rest;
    wm_block **low = &block->left;
    wm_block **high = &block->right;

    block->weight = next_weight(tree);
    while (*link != NULL && (*link)->weight >= block->weight) {
        link = before(block, *link) ? &(*link)->left : &(*link)->right;
    }
    /* block takes this place; what hung here is split around it. */
    rest = *link;
    *link = block;
    while (rest != NULL) {
        if (before(rest, block)) {
            *low = rest;
            low = &rest->right;
            rest = rest->right;
        } else {
            *high = rest;
            high = &rest->left;
            rest = rest->left;
        }
    }
    *low = NULL;
    *high = NULL;
}

void wm_fit_tree_remove(wm_fit_tree *tree, wm_block *block)
{
    wm_block **link = &tree->root;
    wm_block *low = block->left;
    wm_block *high = block->right;

    while (*link != block) {
        wm_assert(*link != NULL);
        link = before(block, *link) ? &(*link)->left : &(*link)->right;
    }
    /* Its two subtrees are joined in its place. */
    while (low != NULL && high != NULL) {
        if (low->weight >= high->weight) {
            *link = low;
            link = &low->right;
            low = low->right;
        } else {
            *link = high;
            link = &high->left;
            high = high->left;
        }
    }
    *link = low != NULL ? low : high;
    block->left = NULL;
    block->right = NULL;
}

wm_block *wm_fit_tree_find(const wm_fit_tree *tree, size_t bytes)
{
    wm_block *best = NULL;
    wm_block *at = tree->root;

    while (at != NULL) {
        if (at->bytes >= bytes) {
            best = at;
            at = at->left;
        } else {
            at = at->right;
        }
    }
    return best;
}
