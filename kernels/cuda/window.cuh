// window.cuh: how the outputs (o, p) of a convolution or a pooling meet its inputs (h, w):
// h = o stride_h - pad_h + a dilation_h for row a of the kernel, and so for columns.
#pragma once

struct Window {
    int height, width, out_height, out_width, kernel_h, kernel_w;
    int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
};

// A kernel takes these twelve numbers one by one; WINDOW puts them together again.
#define WINDOW_PARAMETERS                                                                         \
    int height, int width, int out_height, int out_width, int kernel_h, int kernel_w,             \
        int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w
#define WINDOW                                                                                    \
    Window{height,   width,    out_height, out_width, kernel_h,   kernel_w,                       \
           stride_h, stride_w, pad_h,      pad_w,     dilation_h, dilation_w}
