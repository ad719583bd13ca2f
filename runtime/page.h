/* page.h: the page to look at (row G7), as make writes it from page.html into a
 * C file: text that ends with NUL. */
#ifndef WM_PAGE_H
#define WM_PAGE_H

extern const unsigned char wm_page_html[];

#endif
