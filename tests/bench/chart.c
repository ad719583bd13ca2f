/* chart.c: writes the SVG. A series has one colour in every panel. */
#include "tests/bench/chart.h"

#include <string.h>

enum {
    WIDTH = 560,
    HEIGHT = 320,
    HEAD = 70,
    LEFT = 70,
    RIGHT = 14,
    TOP = 58,
    BOTTOM = 48
};

static const struct {
    const char *series, *colour;
} colours[] = {
    {"warmpool", "#0b3c8c"},    {"host", "#0b3c8c"},
    {"floor", "#9a9a9a"},       {"tls", "#9a9a9a"},
    {"none", "#d0d0d0"},        {"bare", "#d0d0d0"},
    {"glibc", "#b8860b"},       {"mimalloc", "#2e8b57"},
    {"jemalloc", "#b5413a"},    {"jemalloc-8M", "#e39a92"},
    {"per-request", "#7d4fa0"}, {"cub", "#6aa84f"},
};

static const char *colour_of(const char *series)
{
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
        if (strcmp(colours[i].series, series) == 0) {
            return colours[i].colour;
        }
    }
    return "#000000";
}

void chart_begin(FILE *out, const char *title, const char *note,
                 unsigned columns, unsigned rows)
{
    unsigned width = columns * WIDTH, height = HEAD + rows * HEIGHT;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" "
            "height=\"%u\" viewBox=\"0 0 %u %u\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"%u\" height=\"%u\" "
            "fill=\"white\"/>\n",
            width, height, width, height, width, height);
    fprintf(out,
            "<text x=\"20\" y=\"30\" font-size=\"18\">%s</text>\n"
            "<text x=\"20\" y=\"52\" fill=\"#555\">%s</text>\n",
            title, note);
}

void chart_end(FILE *out)
{
    fprintf(out, "</svg>\n");
}

/* log2, to a thousandth or so: no mathematics library. */
static double log_2(double x)
{
    double sum = 0, bit = 0.5;

    while (x >= 2) {
        x /= 2;
        sum++;
    }
    while (x < 1) {
        x *= 2;
        sum--;
    }
    for (int i = 0; i < 12; i++) {
        x *= x;
        if (x >= 2) {
            x /= 2;
            sum += bit;
        }
        bit /= 2;
    }
    return sum;
}

typedef struct axis {
    double x, y, width, height; /* of the plot */
    double low, high;           /* values */
    bool linear;
} axis;

static double height_of(const axis *a, double value)
{
    double share;

    value = value < a->low ? a->low : value;
    share = a->linear ? (value - a->low) / (a->high - a->low)
                      : log_2(value / a->low) / log_2(a->high / a->low);
    return share * a->height;
}

static void range(const chart_panel *p, axis *a)
{
    double least = 1e18, most = 0;

    for (unsigned s = 0; s < p->series_count; s++) {
        for (unsigned g = 0; g < p->groups; g++) {
            double v = p->value[s][g];
            double high = p->high[s][g] > v ? p->high[s][g] : v;

            least = v > 0 && v < least ? v : least;
            most = high > most ? high : most;
        }
    }
    a->linear = p->linear;
    a->low = 0;
    a->high = most > 0 ? most * 1.1 : 1;
    if (!p->linear) {
        a->low = 1e-3;
        while (a->low * 10 <= least && a->low < 1e9) {
            a->low *= 10;
        }
        a->high = a->low * 10;
        while (a->high < most) {
            a->high *= 10;
        }
    }
}

static void grid_line(FILE *out, const axis *a, double value)
{
    double y = a->y + a->height - height_of(a, value);

    fprintf(out,
            "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
            "stroke=\"#ddd\"/><text x=\"%.1f\" y=\"%.1f\" "
            "text-anchor=\"end\">%g</text>\n",
            a->x, a->x + a->width, y, y, a->x - 5, y + 4, value);
}

static void grid(FILE *out, const chart_panel *p, const axis *a)
{
    if (p->linear) {
        for (int i = 0; i * 0.5 <= a->high; i++) {
            grid_line(out, a, i * 0.5);
        }
    } else {
        double v = a->low;

        while (v <= a->high * 1.001) {
            grid_line(out, a, v);
            v *= 10;
        }
    }
    for (unsigned g = 0; g < p->groups; g++) {
        fprintf(out,
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
                "</text>\n",
                a->x + a->width * (g + 0.5) / p->groups, a->y + a->height + 16,
                p->group[g]);
    }
    fprintf(out,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
            a->x + a->width / 2, a->y + a->height + 34, p->x_label);
    fprintf(out,
            "<text transform=\"translate(%.1f %.1f) rotate(-90)\" "
            "text-anchor=\"middle\">%s</text>\n",
            a->x - 50, a->y + a->height / 2, p->y_label);
}

static void bar(FILE *out, const chart_panel *p, const axis *a, unsigned s,
                unsigned g)
{
    double width = a->width / p->groups * 0.84 / p->series_count;
    double x = a->x + a->width * (g + 0.08) / p->groups + s * width;
    double base = a->y + a->height;
    double h = height_of(a, p->value[s][g]);
    int digits = p->value[s][g] < 5 ? 2 : p->value[s][g] < 50;

    fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"%s\"/>\n",
            x, base - h, width * 0.9, h, colour_of(p->series[s]));
    if (p->low[s][g] > 0 && p->high[s][g] > p->low[s][g]) {
        fprintf(out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
                "stroke=\"black\" stroke-width=\"0.8\"/>\n",
                x + width * 0.45, x + width * 0.45,
                base - height_of(a, p->low[s][g]),
                base - height_of(a, p->high[s][g]));
    }
    /* Many bars are narrower than their figures. */
    if (p->series_count > 3) {
        fprintf(out,
                "<text transform=\"translate(%.1f %.1f) rotate(-90)\" "
                "font-size=\"8\">%.*f</text>\n",
                x + width * 0.45 + 3, base - h - 3, digits, p->value[s][g]);
    } else {
        fprintf(out,
                "<text x=\"%.1f\" y=\"%.1f\" font-size=\"9\" "
                "text-anchor=\"middle\">%.*f</text>\n",
                x + width * 0.45, base - h - 3, digits, p->value[s][g]);
    }
}

static void point(FILE *out, const chart_panel *p, const axis *a, unsigned s,
                  unsigned g)
{
    double step = a->width / p->groups;
    double x = a->x + step * (g + 0.5);
    double y = a->y + a->height - height_of(a, p->value[s][g]);

    fprintf(out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>"
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" "
            "font-size=\"9\">%.*f</text>\n",
            x, y, colour_of(p->series[s]), x, y + (s % 2 == 0 ? -7 : 15),
            p->value[s][g] < 50, p->value[s][g]);
    if (g > 0 && p->value[s][g - 1] > 0) {
        fprintf(out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                "stroke=\"%s\" stroke-width=\"1.5\"/>\n",
                x - step, a->y + a->height - height_of(a, p->value[s][g - 1]),
                x, y, colour_of(p->series[s]));
    }
}

static void legend(FILE *out, const chart_panel *p, const axis *a)
{
    double x = a->x;

    for (unsigned s = 0; s < p->series_count; s++) {
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"9\" height=\"9\" "
                "fill=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" "
                "font-size=\"10\">%s</text>\n",
                x, a->y - 22, colour_of(p->series[s]), x + 12, a->y - 14,
                p->series[s]);
        x += 22 + 6 * (double)strlen(p->series[s]);
    }
}

static void goals(FILE *out, const chart_panel *p, const axis *a)
{
    double step = a->width / p->groups;

    for (unsigned g = 0; g < p->groups; g++) {
        double x = a->x + step * g, y;

        if (p->goal[g] > 0) {
            y = a->y + a->height - height_of(a, p->goal[g]);
            fprintf(out,
                    "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
                    "stroke=\"#c00\" stroke-dasharray=\"5 3\"/>"
                    "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" "
                    "fill=\"#c00\" font-size=\"9\">%.3g</text>\n",
                    x + step * 0.03, x + step * 0.97, y, y, x + step * 0.98,
                    y - 3, p->goal[g]);
        }
    }
}

void chart_add(FILE *out, const chart_panel *panel, unsigned column,
               unsigned row)
{
    axis a = {.x = column * (double)WIDTH + LEFT,
              .y = HEAD + row * (double)HEIGHT + TOP,
              .width = WIDTH - LEFT - RIGHT,
              .height = HEIGHT - TOP - BOTTOM};

    range(panel, &a);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"13\">%s</text>\n",
            a.x, a.y - 34, panel->title);
    grid(out, panel, &a);
    for (unsigned s = 0; s < panel->series_count; s++) {
        for (unsigned g = 0; g < panel->groups; g++) {
            if (panel->value[s][g] > 0) {
                (panel->lines ? point : bar)(out, panel, &a, s, g);
            }
        }
    }
    goals(out, panel, &a);
    legend(out, panel, &a);
}
