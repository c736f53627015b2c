// ONNX Runtime's C headers, as a Go module carries them.
module fermata/headers

go 1.19

require github.com/yalue/onnxruntime_go v1.27.0
