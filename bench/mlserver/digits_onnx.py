"""The digits model as an MLServer runtime: one ONNX Runtime session of one thread."""

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse


class DigitsOnnx(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(self.settings.parameters.uri, options)
        self._outputs = [output.name for output in self._session.get_outputs()]
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        inputs = {tensor.name: NumpyCodec.decode_input(tensor) for tensor in payload.inputs}
        values = self._session.run(self._outputs, inputs)
        outputs = [NumpyCodec.encode_output(*pair) for pair in zip(self._outputs, values)]
        return InferenceResponse(model_name=self.name, outputs=outputs)
