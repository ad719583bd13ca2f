/* fit_tree.h: idle runs ordered by (bytes, base), for best fit.
 *
 * A treap through the blocks' own links: no allocation, expected cost
 * logarithmic in the number of idle runs. The caller holds lock arena. Lowest
 * address among equals, so that high segments get a chance to become idle. */
#ifndef WM_FIT_TREE_H
#define WM_FIT_TREE_H

#include "alloc/block.h"

typedef struct wm_fit_tree {
    wm_block *root;
    uint32_t seed; /* of the weights; any value but 0 */
} wm_fit_tree;

void wm_fit_tree_insert(wm_fit_tree *tree, wm_block *block);
/* block is in the tree. */
void wm_fit_tree_remove(wm_fit_tree *tree, wm_block *block);
/* The smallest run of at least bytes, or null; it stays in the tree. */
wm_block *wm_fit_tree_find(const wm_fit_tree *tree, size_t bytes);

#endif
