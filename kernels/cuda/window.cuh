// window.cuh: how the outputs (o, p) of a convolution or a pooling meet its inputs (h, w):
// h = o stride_h - pad_h + a dilation_h for row a of the kernel, and so for columns.
#pragma once

struct Window {
    int height, width, out_height, out_width, kernel_h, kernel_w;
    int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    __device__ int area() const { return height * width; }
    __device__ int out_area() const { return out_height * out_width; }
    __device__ int size() const { return kernel_h * kernel_w; }
    // Where output `pixel` meets offset (a, b), in the flat image; -1 in the padding.
    __device__ int input(int pixel, int a, int b) const {
        int h = pixel / out_width * stride_h - pad_h + a * dilation_h;
        int w = pixel % out_width * stride_w - pad_w + b * dilation_w;
        return h >= 0 && h < height && w >= 0 && w < width ? h * width + w : -1;
    }
    // Which output meets input `pixel` at offset (a, b), in the flat image; -1: none.
    __device__ int output(int pixel, int a, int b) const {
        int o = pixel / width + pad_h - a * dilation_h, p = pixel % width + pad_w - b * dilation_w;
        if (o < 0 || p < 0 || o % stride_h || p % stride_w) return -1;
        o /= stride_h, p /= stride_w;
        return o < out_height && p < out_width ? o * out_width + p : -1;
    }
};

// A kernel takes these twelve numbers one by one; WINDOW puts them together again.
#define WINDOW_PARAMETERS                                                                         \
    int height, int width, int out_height, int out_width, int kernel_h, int kernel_w,             \
        int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w
#define WINDOW                                                                                    \
    Window{height,   width,    out_height, out_width, kernel_h,   kernel_w,                       \
           stride_h, stride_w, pad_h,      pad_w,     dilation_h, dilation_w}
